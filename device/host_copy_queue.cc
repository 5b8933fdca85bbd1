#include "device/host_copy_queue.h"

#include <cstring>
#include <utility>

#include "device/host_event.h"

namespace ucudnn {
namespace {

Result<HostEvent*> HostEventOf(Event& event) {
  auto* const ours = dynamic_cast<HostEvent*>(&event);
  if (ours != nullptr) return ours;
  return Fail(Code::kInvalidArgument,
              "the event is not of a device in the host's memory");
}

}  // namespace

HostCopyQueue::HostCopyQueue() : thread_([this] { Work(); }) {}

HostCopyQueue::~HostCopyQueue() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status HostCopyQueue::Copy(void* to, const void* from, Bytes size) {
  if (size <= Bytes()) return {};
  Enqueue(
      [=] { std::memcpy(to, from, static_cast<std::size_t>(size.count())); });
  return {};
}

Status HostCopyQueue::Set(Event& event) {
  UCUDNN_ASSIGN_OR_RETURN(HostEvent* const host, HostEventOf(event));
  host->Announce();
  Enqueue([host] { host->Reach(); });
  return {};
}

Status HostCopyQueue::WaitFor(Event& event) {
  UCUDNN_ASSIGN_OR_RETURN(HostEvent* const host, HostEventOf(event));
  Enqueue([host, announced = host->Announced()] { host->Await(announced); });
  return {};
}

void HostCopyQueue::Enqueue(Step step) {
  {
    const std::lock_guard lock(mutex_);
    steps_.push_back(std::move(step));
  }
  changed_.notify_all();
}

Status HostCopyQueue::Synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return steps_.empty(); });
  return {};
}

void HostCopyQueue::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ended_ || !steps_.empty(); });
    if (steps_.empty()) return;
    // Others only add to the end, which leaves references to steps valid.
    const Step& step = steps_.front();
    lock.unlock();
    step();
    lock.lock();
    steps_.pop_front();
    if (steps_.empty()) changed_.notify_all();
  }
}

}  // namespace ucudnn
