#include "client/training/memory_run.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <utility>

#include "base/median.h"
#include "base/text.h"
#include "solver/memory/summary.h"

namespace ucudnn {
namespace {

std::string RoundsOf(const MemoryPlan& plan) {
  std::string rounds;
  for (const MemoryRound& round : plan.rounds) {
    if (!rounds.empty()) rounds += " + ";
    rounds += fmt::format("{} × {}", round.count, round.batch.count());
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

std::map<std::size_t, Nanoseconds> PlannedTasks(const MemoryPlan& plan) {
  std::map<std::size_t, Nanoseconds> tasks;
  for (const MemoryRound& round : plan.rounds) {
    for (const MemoryEvent& event : round.events) {
      if (event.op != EventOp::kCompute) continue;
      tasks[event.task] += event.duration * round.count;
    }
  }
  return tasks;
}

// What runs more than once in a round, and how long that takes by the plan.
struct Repeated {
  std::int64_t tasks = 0;
  Nanoseconds time{0};
};
Repeated RepeatedTasks(const MemoryPlan& plan) {
  Repeated repeated;
  for (const MemoryRound& round : plan.rounds) {
    std::set<std::size_t> seen;
    for (const MemoryEvent& event : round.events) {
      if (event.op != EventOp::kCompute || seen.insert(event.task).second) {
        continue;
      }
      repeated.tasks += round.count;
      repeated.time += event.duration * round.count;
    }
  }
  return repeated;
}

struct OperatorTime {
  std::int64_t tasks = 0;
  Nanoseconds planned{0};
  Nanoseconds measured{0};

  Nanoseconds off() const { return measured - planned; }
};

// By operator and pass; those that are the most off first.
std::vector<std::pair<std::string, OperatorTime>> OperatorTimes(
    const PreparedTraining& prepared, const MemoryRun& run) {
  std::map<std::string, OperatorTime> by_name;
  for (const auto& [task, measured] : run.tasks) {
    const std::string what(Name(prepared.operations[task].what));
    const std::string_view kind = Name(prepared.training.tasks[task].kind);
    OperatorTime& time =
        by_name[what == kind ? what : fmt::format("{} {}", what, kind)];
    ++time.tasks;
    time.planned += run.planned_tasks.at(task);
    time.measured += measured;
  }
  std::vector<std::pair<std::string, OperatorTime>> times(by_name.begin(),
                                                          by_name.end());
  std::ranges::stable_sort(times, std::greater(), [](const auto& entry) {
    return std::chrono::abs(entry.second.off());
  });
  return times;
}

// The tasks that are the most off.
std::vector<std::size_t> TasksMostOff(const MemoryRun& run) {
  constexpr std::size_t kMost = 10;
  std::vector<std::size_t> tasks;
  for (const auto& [task, measured] : run.tasks) tasks.push_back(task);
  std::ranges::stable_sort(tasks, std::greater(), [&](std::size_t task) {
    return std::chrono::abs(run.tasks.at(task) - run.planned_tasks.at(task));
  });
  tasks.resize(std::min(tasks.size(), kMost));
  return tasks;
}

nlohmann::ordered_json TaskJson(const PreparedTraining& prepared,
                                const MemoryRun& run) {
  nlohmann::ordered_json json;
  for (const auto& [name, time] : OperatorTimes(prepared, run)) {
    json["operators"].push_back({{"operator", name},
                                 {"tasks", time.tasks},
                                 {"predicted_us", Microseconds(time.planned)},
                                 {"us", Microseconds(time.measured)}});
  }
  for (const std::size_t task : TasksMostOff(run)) {
    json["most_off"].push_back(
        {{"task", prepared.training.tasks[task].name},
         {"predicted_us", Microseconds(run.planned_tasks.at(task))},
         {"us", Microseconds(run.tasks.at(task))}});
  }
  return json;
}

Nanoseconds MedianOf(std::vector<Nanoseconds> times) {
  if (times.empty()) return Nanoseconds(0);
  return MedianAndSpreadOf(std::move(times)).median;
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
  UCUDNN_ASSIGN_OR_RETURN(const TrainingBatch batch, executor->MakeBatch());
  std::ranges::copy(prepared.images.images, batch.images.begin());
  std::ranges::copy(prepared.images.labels, batch.labels.begin());
  MemoryRun run;
  run.images = batch.memory.size();
  run.arena = executor->arena();
  run.host = executor->host_arena();
  run.planned_stalls = PlannedStalls(plan);
  if (options.execution.time_tasks) run.planned_tasks = PlannedTasks(plan);
  std::vector<Nanoseconds> offloading;
  std::vector<Nanoseconds> prefetching;
  const std::int64_t warm_up = std::min(options.warm_up, options.steps - 1);
  for (std::int64_t i = 0; i < options.steps; ++i) {
    if (stop.stop_requested()) {
      run.interrupted = true;
      break;
    }
    const auto begun = std::chrono::steady_clock::now();
    UCUDNN_ASSIGN_OR_RETURN(const StepReport step, executor->Step(batch));
    run.losses.push_back(step.loss);
    if (i < warm_up) continue;
    run.walls.push_back(std::chrono::duration_cast<Nanoseconds>(
        std::chrono::steady_clock::now() - begun));
    run.times.push_back(step.time);
    run.enqueue += step.enqueue;
    for (const auto& [cause, time] : step.stalls) run.stalls[cause] += time;
    for (const auto& [task, time] : step.tasks) run.tasks[task] += time;
    run.offloads = step.offloads;
    run.prefetches = step.prefetches;
    offloading.push_back(step.offloads.time);
    prefetching.push_back(step.prefetches.time);
  }
  run.offloads.time = MedianOf(std::move(offloading));
  run.prefetches.time = MedianOf(std::move(prefetching));
  const auto counted = std::max<std::int64_t>(std::ssize(run.times), 1);
  run.enqueue /= counted;
  for (auto& [cause, time] : run.stalls) time /= counted;
  for (auto& [task, time] : run.tasks) time /= counted;
  run.captured = executor->captured();
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
  json["images_host_bytes"] = run.images.count();
  json["offloaded_bytes"] = plan.offloaded.count();
  json["prefetched_bytes"] = plan.prefetched.count();
  const DeviceModel& device = prepared.training.device;
  json["link"] = {{"d2h_gb_per_s", run.offloads.Rate() / 1e3},
                  {"planned_d2h_gb_per_s", device.d2h_rate / 1e3},
                  {"h2d_gb_per_s", run.prefetches.Rate() / 1e3},
                  {"planned_h2d_gb_per_s", device.h2d_rate / 1e3}};
  json["predicted_us"] = Microseconds(plan.time);
  json["step_us"] = Microseconds(run.Median());
  json["wall_us"] = Microseconds(MedianOf(run.walls));
  json["enqueue_us"] = Microseconds(run.enqueue);
  json["graphs"] = run.captured.graphs;
  json["graph_bytes"] = run.captured.memory.count();
  json["graph_problem"] = run.captured.problem;
  const Repeated repeated = RepeatedTasks(plan);
  json["recomputed_tasks"] = repeated.tasks;
  json["recomputed_us"] = Microseconds(repeated.time);
  json["lower_bound_us"] = Microseconds(plan.lower_bound);
  json["cut_off"] = plan.cut_off;
  if (plan.ideal_time) json["ideal_us"] = Microseconds(*plan.ideal_time);
  json["predicted_stalls_us"] = StallJson(run.planned_stalls);
  json["stalls_us"] = StallJson(run.stalls);
  if (!run.tasks.empty()) json["task_times"] = TaskJson(prepared, run);
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
  if (plan.cut_off) {
    rows.push_back({"search",
                    "cut off by its time limit; another may find a "
                    "faster plan"});
  }
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
  if (run.offloads.copies > 0) {
    const DeviceModel& device = prepared.training.device;
    rows.push_back(
        {"link",
         fmt::format("{:.1f} GB/s to the host (predicted {:.1f}), "
                     "{:.1f} GB/s back (predicted {:.1f})",
                     run.offloads.Rate() / 1e3, device.d2h_rate / 1e3,
                     run.prefetches.Rate() / 1e3, device.h2d_rate / 1e3)});
  }
  rows.push_back(
      {"device memory", fmt::format("{} of {}", HumanBytes(run.arena),
                                    HumanBytes(plan.budget))});
  rows.push_back({"host memory",
                  fmt::format("{}, and {} for the images", HumanBytes(run.host),
                              HumanBytes(run.images))});
  if (const Repeated repeated = RepeatedTasks(plan); repeated.tasks > 0) {
    rows.push_back(
        {"recomputed", fmt::format("{} tasks (predicted {})", repeated.tasks,
                                   HumanTime(repeated.time))});
  }
  rows.push_back(
      {"enqueueing",
       fmt::format("{} of the host's time; {} graphs, {}{}",
                   HumanTime(run.enqueue), run.captured.graphs,
                   HumanBytes(run.captured.memory),
                   run.captured.problem.empty()
                       ? ""
                       : fmt::format(" ({})", run.captured.problem))});
  for (const auto& [name, time] : OperatorTimes(prepared, run)) {
    rows.push_back({name, fmt::format("{} (predicted {}), tasks: {}",
                                      HumanTime(time.measured),
                                      HumanTime(time.planned), time.tasks)});
  }
  if (!run.losses.empty()) {
    rows.push_back(
        {"loss", fmt::format("{:.6g} to {:.6g} in {} steps", run.losses.front(),
                             run.losses.back(), run.losses.size())});
  }
  return rows;
}

}  // namespace ucudnn
