#include "tests/integration/history/load.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace ucudnn::test {
namespace {

using std::chrono::milliseconds;

// Waits for the next turn, or until a stop is requested.
void Pause(const std::stop_token& stop, milliseconds interval) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, interval,
                                         [] { return false; });
}

}  // namespace

Load::Load(const Site& site, std::uint32_t seed) {
  Add(std::make_unique<Measurer>(site, seed + 1, 0), milliseconds(20));
  Add(std::make_unique<Measurer>(site, seed + 2, 1), milliseconds(20));
  Add(std::make_unique<Planner>(site, seed + 3), milliseconds(50));
  Add(std::make_unique<JobRunner>(site, seed + 4), milliseconds(10));
  Add(std::make_unique<JobRunner>(site, seed + 5), milliseconds(10));
  Add(std::make_unique<Observer>(site, seed + 6), milliseconds(2'000));
}

void Load::Add(std::unique_ptr<Client> client, milliseconds interval) {
  Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
  worker.client = std::move(client);
  worker.interval = interval;
  worker.thread = std::jthread([&worker](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      worker.answered += worker.client->Turn();
      Pause(stop, worker.interval);
    }
  });
}

std::vector<std::int64_t> Load::Answered() const {
  std::vector<std::int64_t> answered;
  for (const auto& worker : workers_) answered.push_back(worker->answered);
  return answered;
}

}  // namespace ucudnn::test
