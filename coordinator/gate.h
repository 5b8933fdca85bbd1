#ifndef UCUDNN_COORDINATOR_GATE_H_
#define UCUDNN_COORDINATOR_GATE_H_

// Bounds how many calls of a sort run at once and how many wait for that, so
// that more of them are refused quickly instead of slowing all down.
//
//   Gate gate(4, 12);
//   UCUDNN_ASSIGN_OR_RETURN(const Gate::Pass pass, gate.Enter());

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>

#include "base/result.h"
#include "base/service/call.h"

namespace ucudnn {

// Thread-safe. Must outlive its passes.
class Gate {
 public:
  // Leaves on destruction.
  class Pass {
   public:
    explicit Pass(Gate* gate) : gate_(gate) {}
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave();
    }

   private:
    Gate* gate_;
  };

  Gate(std::size_t running, std::size_t waiting)
      : max_running_(running), max_waiting_(waiting) {}

  // Waits while too many are inside. kResourceExhausted at once if too many
  // wait already; the errors of Call::Check while waiting.
  Result<Pass> Enter() {
    constexpr std::chrono::milliseconds kLook{50};
    std::unique_lock lock(mutex_);
    if (running_ >= max_running_) {
      if (waiting_ >= max_waiting_) {
        return Fail(Code::kResourceExhausted,
                    "the coordinator is busy: {} such calls run and {} wait; "
                    "try again in a second",
                    running_, waiting_);
      }
      ++waiting_;
      Status wanted;
      while (running_ >= max_running_ && wanted) {
        left_.wait_for(lock, kLook);
        wanted = Call::Check();
      }
      --waiting_;
      if (!wanted) return tl::unexpected<Error>(std::move(wanted).error());
    }
    ++running_;
    return Pass(this);
  }

 private:
  void Leave() {
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    left_.notify_one();
  }

  const std::size_t max_running_;
  const std::size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable left_;
  std::size_t running_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_GATE_H_
