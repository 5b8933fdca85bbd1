#ifndef UCUDNN_TESTS_INTEGRATION_HISTORY_LOAD_H_
#define UCUDNN_TESTS_INTEGRATION_HISTORY_LOAD_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tests/integration/history/clients.h"

namespace ucudnn::test {

// How many clients of each sort there are, and how often each has its turn.
struct LoadShape {
  int agents = 2;
  int first_agent = 0;  // its number; the others' follow
  int jobs = 2;
  int planners = 1;  // and as many observers
  std::chrono::milliseconds agent{20};
  std::chrono::milliseconds job{10};
  std::chrono::milliseconds planner{50};
  std::chrono::milliseconds observer{2'000};
};

// Keeps clients of a cluster busy, each in a thread of its own and at a steady
// rate, until it is destroyed.
class Load {
 public:
  Load(const Site& site, std::uint32_t seed, const LoadShape& shape = {});

  // How many calls of each client were answered so far.
  std::vector<std::int64_t> Answered() const;

 private:
  struct Worker {
    std::unique_ptr<Client> client;
    std::chrono::milliseconds interval;
    std::atomic<std::int64_t> answered = 0;
    std::jthread thread;
  };

  void Add(std::unique_ptr<Client> client, std::chrono::milliseconds interval);

  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_INTEGRATION_HISTORY_LOAD_H_
