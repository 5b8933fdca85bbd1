#include "coordinator/health.h"

#include <utility>

namespace ucudnn {

Health::Health(std::function<Status()> ask,
               std::function<void(const Status&)> changed,
               HealthOptions options)
    : ask_(std::move(ask)),
      changed_(std::move(changed)),
      options_(options),
      answer_(ask_()),
      answered_(Clock::now()) {
  changed_(answer_);
  watching_ = std::thread(
      [this, was_ready = answer_.has_value()] { Watch(was_ready); });
  asking_ = std::thread([this] { Ask(); });
}

Health::~Health() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  watching_.join();
  asking_.join();
}

Status Health::Ready() const {
  const std::lock_guard lock(mutex_);
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(
      Clock::now() - answered_);
  if (answer_ && age > options_.fresh) {
    return Fail(Code::kUnavailable, "the database has not answered for {} ms",
                age.count());
  }
  return answer_;
}

void Health::Ask() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    Status answer = ask_();
    lock.lock();
    answer_ = std::move(answer);
    answered_ = Clock::now();
    stopped_.wait_for(lock, options_.ask_every, [this] { return stopping_; });
  }
}

void Health::Watch(bool was_ready) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const Status ready = Ready();
    if (ready.has_value() != was_ready) changed_(ready);
    was_ready = ready.has_value();
    lock.lock();
    stopped_.wait_for(lock, options_.ask_every / 5,
                      [this] { return stopping_; });
  }
}

}  // namespace ucudnn
