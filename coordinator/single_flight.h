#ifndef UCUDNN_COORDINATOR_SINGLE_FLIGHT_H_
#define UCUDNN_COORDINATOR_SINGLE_FLIGHT_H_

// Runs equal calls one at a time: a client that timed out and asks again waits
// for its first call and then finds the result that this has stored.

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace ucudnn {

class SingleFlight {
 public:
  // While a turn lives, no other one has its key.
  class Turn {
   public:
    Turn(SingleFlight& flights, std::string key)
        : flights_(flights), key_(std::move(key)) {
      std::unique_lock lock(flights_.mutex_);
      flights_.ended_.wait(lock,
                           [&] { return !flights_.keys_.contains(key_); });
      flights_.keys_.insert(key_);
    }
    ~Turn() {
      {
        const std::lock_guard lock(flights_.mutex_);
        flights_.keys_.erase(key_);
      }
      flights_.ended_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    SingleFlight& flights_;
    const std::string key_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<std::string> keys_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_SINGLE_FLIGHT_H_
