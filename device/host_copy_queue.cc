#include "device/host_copy_queue.h"

#include <cstring>

namespace ucudnn {

HostCopyQueue::HostCopyQueue() : thread_([this] { Work(); }) {}

HostCopyQueue::~HostCopyQueue() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status HostCopyQueue::Enqueue(void* to, const void* from, Bytes size) {
  if (size <= Bytes()) return {};
  {
    const std::lock_guard lock(mutex_);
    copies_.push_back({to, from, static_cast<std::size_t>(size.count())});
  }
  changed_.notify_all();
  return {};
}

Status HostCopyQueue::Synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return copies_.empty(); });
  return {};
}

void HostCopyQueue::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ended_ || !copies_.empty(); });
    if (copies_.empty()) return;
    const Copy copy = copies_.front();
    lock.unlock();
    std::memcpy(copy.to, copy.from, copy.size);
    lock.lock();
    copies_.pop_front();
    if (copies_.empty()) changed_.notify_all();
  }
}

}  // namespace ucudnn
