#ifndef UCUDNN_CLIENT_SESSION_STEP_LOG_H_
#define UCUDNN_CLIENT_SESSION_STEP_LOG_H_

// A queue of step times from the training thread to the one that reports them
// to the coordinator. One thread adds, another takes; neither ever waits.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace ucudnn {

struct TakenStep {
  std::int64_t revision = 1;
  std::int64_t index = 0;  // of this step under its revision
  Nanoseconds time{0};

  friend bool operator==(const TakenStep&, const TakenStep&) = default;
};

class StepLog {
 public:
  static constexpr std::size_t kCapacity = 4096;

  // Adds a step under `revision`, which never decreases. If the log is full,
  // the step is counted and its time dropped. Does not allocate or lock.
  void Add(std::int64_t revision, Nanoseconds time) {
    if (revision != revision_) {
      revision_ = revision;
      index_ = 0;
    }
    const std::int64_t index = index_++;
    const std::size_t end = end_.load(std::memory_order_relaxed);
    if (end - begin_.load(std::memory_order_acquire) == kCapacity) return;
    steps_[end % kCapacity] = {revision, index, time};
    end_.store(end + 1, std::memory_order_release);
  }

  // Removes and returns the oldest step.
  std::optional<TakenStep> Take() {
    const std::size_t begin = begin_.load(std::memory_order_relaxed);
    if (begin == end_.load(std::memory_order_acquire)) return std::nullopt;
    const TakenStep step = steps_[begin % kCapacity];
    begin_.store(begin + 1, std::memory_order_release);
    return step;
  }

 private:
  std::array<TakenStep, kCapacity> steps_;
  // The numbers of steps ever added and taken.
  alignas(64) std::atomic<std::size_t> end_ = 0;
  std::int64_t revision_ = 1;
  std::int64_t index_ = 0;
  alignas(64) std::atomic<std::size_t> begin_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_STEP_LOG_H_
