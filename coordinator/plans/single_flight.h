#ifndef UCUDNN_COORDINATOR_PLANS_SINGLE_FLIGHT_H_
#define UCUDNN_COORDINATOR_PLANS_SINGLE_FLIGHT_H_

// Runs equal calls one at a time: a client that timed out and asks again waits
// for its first call and then finds the result that this has stored.
//
//   UCUDNN_ASSIGN_OR_RETURN(const SingleFlight::Turn turn, flights.Take(key));

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/service/call.h"

namespace ucudnn {

// Thread-safe. Must outlive its turns.
class SingleFlight {
 public:
  // While a turn lives, no other one has its key.
  class Turn {
   public:
    Turn(SingleFlight* flights, std::string key)
        : flights_(flights), key_(std::move(key)) {}
    Turn(Turn&& other) noexcept
        : flights_(std::exchange(other.flights_, nullptr)),
          key_(std::move(other.key_)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (flights_ != nullptr) flights_->End(key_);
    }

   private:
    SingleFlight* flights_;
    std::string key_;
  };

  // Waits while another turn has the key. Errors of Call::Check.
  Result<Turn> Take(std::string key) {
    constexpr std::chrono::milliseconds kLook{50};
    std::unique_lock lock(mutex_);
    while (keys_.contains(key)) {
      UCUDNN_RETURN_IF_ERROR(Call::Check());
      ended_.wait_for(lock, kLook);
    }
    keys_.insert(key);
    return Turn(this, std::move(key));
  }

 private:
  void End(const std::string& key) {
    {
      const std::lock_guard lock(mutex_);
      keys_.erase(key);
    }
    ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<std::string> keys_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANS_SINGLE_FLIGHT_H_
