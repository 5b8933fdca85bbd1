#include "tests/gpu/memory/largest.h"

#include <algorithm>
#include <cstdio>
#include <future>
#include <map>
#include <utility>

#include "base/onnx/network_file.h"
#include "base/text.h"
#include "base/training/build.h"
#include "base/training/costs.h"

namespace ucudnn::memory_rows {
namespace {

// Whether `policy` has a plan by the device model's estimates.
bool Fits(const TrainingInput& input, const DeviceModel& model,
          const std::string& policy, const LargestOptions& options,
          std::int64_t batch) {
  auto graph =
      ParseGraph(input.contents, input.name, BatchSize(batch), input.source);
  if (!graph) return false;
  auto training =
      BuildTrainingGraph(*graph, {.precision = input.graph.precision});
  if (!training || !SetDevice(model, &*training)) return false;
  return PlanOf(*training, policy,
                {.budget = options.budget,
                 .seconds = options.plan_seconds,
                 .any = true})
      .has_value();
}

// The largest batch that fits by estimates; 0 if none does.
std::int64_t BoundOf(const TrainingInput& input, const DeviceModel& model,
                     const std::string& policy, const LargestOptions& options) {
  std::int64_t fits = 0;
  std::int64_t fails = options.most / options.step + 1;
  while (fails - fits > 1) {
    const std::int64_t middle = (fits + fails) / 2;
    (Fits(input, model, policy, options, middle * options.step) ? fits
                                                                : fails) =
        middle;
  }
  return fits * options.step;
}

// Measured where plans look: the batch, and parts for divided convolutions.
std::vector<BatchSize> BatchesOf(std::int64_t batch) {
  std::vector<BatchSize> batches;
  for (const std::int64_t part : {8, 4, 2, 1}) {
    if (batch % part == 0) batches.push_back(BatchSize(batch / part));
  }
  return batches;
}

template <class Key, class Function>
auto ForEach(const std::vector<Key>& keys, const Function& function) {
  std::vector<std::future<decltype(function(keys[0]))>> running;
  for (const Key& key : keys) {
    running.push_back(
        std::async(std::launch::async, [&] { return function(key); }));
  }
  std::map<Key, decltype(function(keys[0]))> results;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    results.emplace(keys[i], running[i].get());
  }
  return results;
}

}  // namespace

Status RunLargest(RowRunner& runner, const std::string& spec,
                  const LargestOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const TrainingInput input, InputOf(spec));
  const auto bounds = ForEach(options.policies, [&](const std::string& policy) {
    return BoundOf(input, runner.model(), policy, options);
  });
  std::map<std::string, std::int64_t> next;
  for (const auto& [policy, bound] : bounds) {
    std::fprintf(stderr, "%6.1f s: %s %s: at most %lld images\n",
                 runner.seconds(), input.name.c_str(), policy.c_str(),
                 static_cast<long long>(bound));
    if (bound > 0) next.emplace(policy, bound);
  }
  while (!next.empty() && runner.seconds() <= options.until) {
    const std::int64_t batch =
        std::ranges::max_element(next, {}, [](const auto& entry) {
          return entry.second;
        })->second;
    std::vector<std::string> tried;
    for (const auto& [policy, wanted] : next) {
      if (wanted == batch) tried.push_back(policy);
    }
    TrainingInput sized = input;
    sized.batch = BatchSize(batch);
    sized.batches = BatchesOf(batch);
    UCUDNN_ASSIGN_OR_RETURN(
        const auto job,
        runner.Prepare(fmt::format("{}:{}:{}", input.source, batch,
                                   Name(input.graph.precision)),
                       std::move(sized)));
    const auto plans = ForEach(tried, [&](const std::string& policy) {
      return PlanOf(
          job->prepared->training, policy,
          {.budget = options.budget, .seconds = options.plan_seconds});
    });
    for (const auto& [policy, plan] : plans) {
      const nlohmann::ordered_json more = {{"largest", options.budget.count()},
                                           {"bound", bounds.at(policy)}};
      next.erase(policy);
      if (plan) {
        UCUDNN_RETURN_IF_ERROR(
            runner.Execute(*job, policy, *plan, runner.model(), more, {}));
        continue;
      }
      // Workspaces need more room than the estimates that gave the bound.
      runner.PrintNoPlan(*job, policy, more, plan.error());
      const std::int64_t less = batch * 7 / 8 / options.step * options.step;
      if (less > 0) next.emplace(policy, less);
    }
  }
  nlohmann::ordered_json left = nlohmann::ordered_json::array();
  for (const auto& [policy, batch] : next) {
    left.push_back(fmt::format("{} {}", input.name, policy));
  }
  PrintLine({{"not_run", left}, {"seconds", runner.seconds()}});
  return {};
}

}  // namespace ucudnn::memory_rows
