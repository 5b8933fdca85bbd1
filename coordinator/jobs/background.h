#ifndef UCUDNN_COORDINATOR_JOBS_BACKGROUND_H_
#define UCUDNN_COORDINATOR_JOBS_BACKGROUND_H_

// Work that nobody waits for and that may take long, such as planning: one
// piece at a time, on a thread of its own.
//
//   background.Begin([&] { LookAtJobs(); });

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "base/result.h"
#include "base/service/call.h"

namespace ucudnn {

// Begin is called by one thread at a time; Await by any.
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  // Has Call::Check fail for the work that runs, and waits for its end.
  ~Background() = default;

  // Begins `work` unless some runs still; returns whether it did.
  bool Begin(std::function<void()> work) {
    if (running_.exchange(true)) return false;
    thread_ =
        std::jthread([this, work = std::move(work)](std::stop_token stop) {
          {
            const Call call([&]() -> Status {
              if (!stop.stop_requested()) return {};
              return Fail(Code::kCancelled, "the coordinator is stopping");
            });
            work();
          }
          running_ = false;
          running_.notify_all();
        });
    return true;
  }

  // Waits until no work runs.
  void Await() const { running_.wait(true); }

 private:
  std::atomic<bool> running_ = false;
  std::jthread thread_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_JOBS_BACKGROUND_H_
