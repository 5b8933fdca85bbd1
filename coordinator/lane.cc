#include "coordinator/lane.h"

#include <utility>

namespace ucudnn {

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

Status Lane::Add(const std::string& caller, Work work) {
  const std::lock_guard lock(mutex_);
  const auto known = of_caller_.find(caller);
  if (known != of_caller_.end() && known->second >= max_of_one_caller_) {
    return Fail(Code::kResourceExhausted,
                "{} such calls of {} run or wait; try again in a second",
                known->second, caller);
  }
  if (running_ + waiting_.size() >= max_threads_ + max_waiting_) {
    return Fail(Code::kResourceExhausted,
                "the coordinator is busy: {} such calls run and {} wait; try "
                "again in a second",
                running_, waiting_.size());
  }
  ++of_caller_[caller];
  waiting_.push_back({caller, std::move(work)});
  if (waiting_.size() > idle_ && threads_.size() < max_threads_) {
    threads_.emplace_back([this] { Run(); });
  }
  changed_.notify_one();
  return {};
}

void Lane::RunUnwanted() {
  std::list<Waiting> unwanted;
  {
    const std::lock_guard lock(mutex_);
    for (auto next = waiting_.begin(); next != waiting_.end();) {
      const auto one = next++;
      if (one->work.wanted()) continue;
      Forget(one->caller);
      unwanted.splice(unwanted.end(), waiting_, one);
    }
  }
  for (Waiting& one : unwanted) one.work.run();
}

void Lane::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    Waiting one = std::move(waiting_.front());
    waiting_.pop_front();
    ++running_;
    lock.unlock();
    one.work.run();
    one.work = {};
    lock.lock();
    --running_;
    Forget(one.caller);
  }
}

void Lane::Forget(const std::string& caller) {
  const auto known = of_caller_.find(caller);
  if (--known->second == 0) of_caller_.erase(known);
}

}  // namespace ucudnn
