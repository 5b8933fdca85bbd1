#include "client/training/memory_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text.h"
#include "solver/memory/summary.h"

namespace ucudnn {
namespace {

std::string RoundsOf(const MemoryPlan& plan) {
  std::string rounds;
  for (const MemoryRound& round : plan.rounds) {
    if (!rounds.empty()) rounds += " + ";
    rounds += fmt::format("{} x {}", round.count, round.batch.count());
  }
  return rounds;
}

// The plan's stalls by the names of StepReport.
std::map<std::string, Nanoseconds> PlannedStalls(const MemoryPlan& plan) {
  std::map<std::string, Nanoseconds> stalls;
  for (const Stall& stall : StallsOf(plan)) {
    const MemoryRound& round = plan.rounds[stall.round];
    const EventOp cause = round.events[stall.cause].op;
    const char* const name = cause == EventOp::kSync       ? "sync"
                             : cause == EventOp::kPrefetch ? "prefetch"
                                                           : "offload";
    stalls[name] += stall.duration * round.count;
  }
  return stalls;
}

nlohmann::ordered_json StallJson(
    const std::map<std::string, Nanoseconds>& stalls) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [cause, time] : stalls) json[cause] = Microseconds(time);
  return json;
}

std::string StallText(const std::map<std::string, Nanoseconds>& stalls) {
  std::string text;
  for (const auto& [cause, time] : stalls) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", cause, HumanTime(time));
  }
  return text.empty() ? "none" : text;
}

Nanoseconds MedianOf(std::vector<Nanoseconds> times) {
  if (times.empty()) return Nanoseconds(0);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

Nanoseconds MemoryRun::Median() const { return MedianOf(times); }

Result<MemoryRun> RunMemoryPlan(Device& device, Operators& operators,
                                const PreparedTraining& prepared,
                                const MemoryPlan& plan,
                                const MemoryRunOptions& options,
                                const std::stop_token& stop,
                                DeviceBuffer* host) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto executor,
      MemoryExecutor::Create(device, operators, prepared.graph,
                             prepared.training, plan, prepared.parameters,
                             options.execution, host));
  MemoryRun run;
  run.arena = executor->arena();
  run.host = executor->host_arena();
  run.planned_stalls = PlannedStalls(plan);
  const std::int64_t warm_up = std::min(options.warm_up, options.steps - 1);
  for (std::int64_t i = 0; i < options.steps; ++i) {
    if (stop.stop_requested()) {
      run.interrupted = true;
      break;
    }
    const auto begun = std::chrono::steady_clock::now();
    UCUDNN_ASSIGN_OR_RETURN(
        const StepReport step,
        executor->Step(prepared.images.images, prepared.images.labels));
    run.losses.push_back(step.loss);
    if (i < warm_up) continue;
    run.walls.push_back(std::chrono::duration_cast<Nanoseconds>(
        std::chrono::steady_clock::now() - begun));
    run.times.push_back(step.time);
    for (const auto& [cause, time] : step.stalls) run.stalls[cause] += time;
  }
  for (auto& [cause, time] : run.stalls) {
    time /= std::max<std::int64_t>(std::ssize(run.times), 1);
  }
  return run;
}

nlohmann::ordered_json ToJson(const PreparedTraining& prepared,
                              const MemoryPlan& plan, const MemoryRun& run) {
  nlohmann::ordered_json json;
  json["network"] = prepared.training.network;
  json["precision"] = Name(prepared.training.precision);
  json["batch"] = prepared.training.batch.count();
  json["policy"] = plan.policy;
  json["choice"] = plan.choice;
  json["sub_batch"] = plan.sub_batch.count();
  json["budget_bytes"] = plan.budget.count();
  json["peak_bytes"] = run.arena.count();
  json["host_bytes"] = run.host.count();
  json["offloaded_bytes"] = plan.offloaded.count();
  json["prefetched_bytes"] = plan.prefetched.count();
  json["predicted_us"] = Microseconds(plan.time);
  json["step_us"] = Microseconds(run.Median());
  json["wall_us"] = Microseconds(MedianOf(run.walls));
  json["lower_bound_us"] = Microseconds(plan.lower_bound);
  if (plan.ideal_time) json["ideal_us"] = Microseconds(*plan.ideal_time);
  json["predicted_stalls_us"] = StallJson(run.planned_stalls);
  json["stalls_us"] = StallJson(run.stalls);
  json["losses"] = run.losses;
  json["steps_us"] = nlohmann::ordered_json::array();
  for (const Nanoseconds time : run.times) {
    json["steps_us"].push_back(Microseconds(time));
  }
  json["interrupted"] = run.interrupted;
  return json;
}

std::vector<std::vector<std::string>> ToRows(const PreparedTraining& prepared,
                                             const MemoryPlan& plan,
                                             const MemoryRun& run) {
  std::vector<std::vector<std::string>> rows;
  rows.push_back(
      {"network", fmt::format("{}, {} images, {}", prepared.training.network,
                              prepared.training.batch.count(),
                              Name(prepared.training.precision))});
  rows.push_back(
      {"policy", plan.choice.empty()
                     ? plan.policy
                     : fmt::format("{}: {}", plan.policy, plan.choice)});
  rows.push_back({"rounds", RoundsOf(plan)});
  const double ratio =
      plan.time.count() == 0
          ? 0
          : 100.0 * static_cast<double>((run.Median() - plan.time).count()) /
                static_cast<double>(plan.time.count());
  rows.push_back(
      {"step", fmt::format("{} (median of {}; predicted {}, {:+.1f} %; {} with "
                           "loading images)",
                           HumanTime(run.Median()), run.times.size(),
                           HumanTime(plan.time), ratio,
                           HumanTime(MedianOf(run.walls)))});
  rows.push_back(
      {"stalls", fmt::format("{} (predicted {})", StallText(run.stalls),
                             StallText(run.planned_stalls))});
  rows.push_back(
      {"device memory", fmt::format("{} of {}", HumanBytes(run.arena),
                                    HumanBytes(plan.budget))});
  rows.push_back({"host memory", HumanBytes(run.host)});
  if (!run.losses.empty()) {
    rows.push_back(
        {"loss", fmt::format("{:.6g} to {:.6g} in {} steps", run.losses.front(),
                             run.losses.back(), run.losses.size())});
  }
  return rows;
}

}  // namespace ucudnn
