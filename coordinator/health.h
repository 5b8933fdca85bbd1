#ifndef UCUDNN_COORDINATOR_HEALTH_H_
#define UCUDNN_COORDINATOR_HEALTH_H_

// Whether the coordinator can serve, known at any moment without asking: a
// thread asks the database again and again, another notices when the answer
// does not come. A frozen, stopped or full database shows within a second.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/result.h"

namespace ucudnn {

struct HealthOptions {
  std::chrono::milliseconds ask_every{250};
  // An answer counts for so long.
  std::chrono::milliseconds fresh{1'000};
};

class Health {
 public:
  // `ask` fails, or does not return, if the database cannot store anything; it
  // is called once before this returns. `changed` is called with the first
  // answer to Ready before this returns, and then, in a thread of this object,
  // whenever the answer changes.
  Health(std::function<Status()> ask,
         std::function<void(const Status&)> changed,
         HealthOptions options = {});
  // Waits for a question that is being asked.
  ~Health();
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  // OK, or why nothing can be stored: kUnavailable, or the error of `ask`.
  // Returns at once. Thread-safe.
  Status Ready() const;

 private:
  using Clock = std::chrono::steady_clock;

  void Ask();
  // Tells of changes, the first from `was_ready`.
  void Watch(bool was_ready);

  const std::function<Status()> ask_;
  const std::function<void(const Status&)> changed_;
  const HealthOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  Status answer_;  // of `ask`, at `answered_`
  Clock::time_point answered_;
  std::thread asking_;
  std::thread watching_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_HEALTH_H_
