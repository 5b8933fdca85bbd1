#ifndef UCUDNN_COORDINATOR_LANE_H_
#define UCUDNN_COORDINATOR_LANE_H_

// Threads for calls of one sort. How many run at once, how many wait for that,
// and how many of either one caller has, is bounded, so that more of them are
// refused quickly instead of slowing all down.
//
//   Lane lane(4, 12, 8);
//   UCUDNN_RETURN_IF_ERROR(lane.Add("host", {.wanted = ..., .run = ...}));

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace ucudnn {

// Thread-safe.
class Lane {
 public:
  struct Work {
    // Quick, and must not use the lane.
    std::function<bool()> wanted;
    // Called once, and at once if it is not wanted any more; must not throw.
    std::function<void()> run;
  };

  Lane(std::size_t threads, std::size_t waiting, std::size_t of_one_caller)
      : max_threads_(threads),
        max_waiting_(waiting),
        max_of_one_caller_(of_one_caller) {}
  // Runs what waits.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Has a thread of the lane run the work. kResourceExhausted if too many wait
  // already, or are the caller's; then it does not run.
  Status Add(const std::string& caller, Work work);

  // Runs on this thread what waits and is not wanted any more.
  void RunUnwanted();

 private:
  struct Waiting {
    std::string caller;
    Work work;
  };

  void Run();
  // With mutex_ held.
  void Forget(const std::string& caller);

  const std::size_t max_threads_;
  const std::size_t max_waiting_;
  const std::size_t max_of_one_caller_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_;
  std::map<std::string, std::size_t> of_caller_;  // running and waiting
  std::size_t running_ = 0;
  std::size_t idle_ = 0;  // threads
  bool stopping_ = false;
  std::vector<std::jthread> threads_;  // started as they are needed
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_LANE_H_
