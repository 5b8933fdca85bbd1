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

Load::Load(const Site& site, std::uint32_t seed, const LoadShape& shape) {
  for (int i = 0; i < shape.agents; ++i) {
    Add(std::make_unique<Measurer>(site, ++seed, shape.first_agent + i),
        shape.agent);
  }
  for (int i = 0; i < shape.planners; ++i) {
    Add(std::make_unique<Planner>(site, ++seed), shape.planner);
    Add(std::make_unique<Observer>(site, ++seed), shape.observer);
  }
  for (int i = 0; i < shape.jobs; ++i) {
    Add(std::make_unique<JobRunner>(site, ++seed), shape.job);
  }
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
