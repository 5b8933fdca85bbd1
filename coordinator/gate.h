#ifndef UCUDNN_COORDINATOR_GATE_H_
#define UCUDNN_COORDINATOR_GATE_H_

// Bounds how many calls of a sort run at once, how many wait for that, and how
// many of either one caller has, so that more of them are refused quickly
// instead of slowing all down.
//
//   Gate gate(4, 12, 8);
//   UCUDNN_ASSIGN_OR_RETURN(const Gate::Pass pass, gate.Enter(caller));

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
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
    Pass(Gate* gate, std::string caller)
        : gate_(gate), caller_(std::move(caller)) {}
    Pass(Pass&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)),
          caller_(std::move(other.caller_)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave(caller_);
    }

   private:
    Gate* gate_;
    std::string caller_;
  };

  Gate(std::size_t running, std::size_t waiting, std::size_t of_one_caller)
      : max_running_(running),
        max_waiting_(waiting),
        max_of_one_caller_(of_one_caller) {}

  // Waits while too many are inside. kResourceExhausted at once if too many
  // wait already, or are the caller's; the errors of Call::Check while waiting.
  Result<Pass> Enter(const std::string& caller) {
    constexpr std::chrono::milliseconds kLook{50};
    std::unique_lock lock(mutex_);
    const auto known = of_caller_.find(caller);
    if (known != of_caller_.end() && known->second >= max_of_one_caller_) {
      return Fail(Code::kResourceExhausted,
                  "{} such calls of {} run or wait; try again in a second",
                  known->second, caller);
    }
    if (running_ >= max_running_) {
      if (waiting_ >= max_waiting_) {
        return Fail(Code::kResourceExhausted,
                    "the coordinator is busy: {} such calls run and {} wait; "
                    "try again in a second",
                    running_, waiting_);
      }
      ++waiting_;
      ++of_caller_[caller];
      Status wanted;
      while (running_ >= max_running_ && wanted) {
        left_.wait_for(lock, kLook);
        wanted = Call::Check();
      }
      --waiting_;
      Forget(caller);
      if (!wanted) return tl::unexpected<Error>(std::move(wanted).error());
    }
    ++running_;
    ++of_caller_[caller];
    return Pass(this, caller);
  }

 private:
  void Leave(const std::string& caller) {
    {
      const std::lock_guard lock(mutex_);
      --running_;
      Forget(caller);
    }
    left_.notify_one();
  }

  // With mutex_ held.
  void Forget(const std::string& caller) {
    const auto known = of_caller_.find(caller);
    if (--known->second == 0) of_caller_.erase(known);
  }

  const std::size_t max_running_;
  const std::size_t max_waiting_;
  const std::size_t max_of_one_caller_;
  std::mutex mutex_;
  std::condition_variable left_;
  std::size_t running_ = 0;
  std::size_t waiting_ = 0;
  std::map<std::string, std::size_t> of_caller_;  // running and waiting
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_GATE_H_
