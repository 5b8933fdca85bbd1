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
    const std::map<std::string, Nanoseconds>& stalls, std::int64_t steps = 1) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [cause, time] : stalls) {
    json[cause] = Microseconds(time / steps);
  }
  return json;
}

// The steps that count; 1 if there is none.
std::int64_t CountedSteps(const MemoryRun& run) {
  return std::max<std::int64_t>(std::ssize(run.times), 1);
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

struct TimedTask {
  std::string name;
  std::int64_t tasks = 1;
  Nanoseconds planned{0};
  Nanoseconds measured{0};
};

void SortByDifference(std::vector<TimedTask>* times) {
  std::ranges::stable_sort(*times, std::greater(), [](const TimedTask& time) {
    return std::chrono::abs(time.measured - time.planned);
  });
}

// Times by operator and pass, and the tasks that are the most off.
nlohmann::ordered_json TaskJson(const PreparedTraining& prepared,
                                const MemoryPlan& plan, const MemoryRun& run) {
  constexpr std::size_t kMost = 10;
  const std::map<std::size_t, Nanoseconds> planned = PlannedTasks(plan);
  std::map<std::string, TimedTask> by_operator;
  std::vector<TimedTask> tasks;
  for (const auto& [task, sum] : run.total.tasks) {
    const Task& of = prepared.training.tasks[task];
    const TimedTask time = {of.name, 1, planned.at(task),
                            sum / CountedSteps(run)};
    tasks.push_back(time);
    std::string name(Name(prepared.operations[task].what));
    if (name != Name(of.kind)) name += fmt::format(" {}", Name(of.kind));
    const auto [place, is_new] = by_operator.try_emplace(name, time);
    place->second.name = name;
    if (is_new) continue;
    ++place->second.tasks;
    place->second.planned += time.planned;
    place->second.measured += time.measured;
  }
  std::vector<TimedTask> operators;
  for (auto& [name, time] : by_operator) operators.push_back(std::move(time));
  SortByDifference(&operators);
  SortByDifference(&tasks);
  tasks.resize(std::min(tasks.size(), kMost));
  nlohmann::ordered_json json;
  for (const TimedTask& time : operators) {
    json["operators"].push_back({{"operator", time.name},
                                 {"tasks", time.tasks},
                                 {"predicted_us", Microseconds(time.planned)},
                                 {"us", Microseconds(time.measured)}});
  }
  for (const TimedTask& time : tasks) {
    json["most_off"].push_back({{"task", time.name},
                                {"predicted_us", Microseconds(time.planned)},
                                {"us", Microseconds(time.measured)}});
  }
  return json;
}

// Times are null if nothing was tried.
nlohmann::ordered_json StreamJson(const StreamUse& use) {
  nlohmann::ordered_json json = {{"asked", use.asked}, {"kept", use.kept}};
  for (const auto& [name, time] :
       {std::pair("alone_us", use.alone), {"together_us", use.together}}) {
    json[name] = nullptr;
    if (time > Nanoseconds(0)) json[name] = Microseconds(time);
  }
  json["why"] = use.why;
  return json;
}

Nanoseconds MedianOf(std::vector<Nanoseconds> times) {
  if (times.empty()) return Nanoseconds(0);
  return MedianAndSpreadOf(std::move(times)).median;
}

}  // namespace

void MemoryRun::Add(const StepReport& step, Nanoseconds wall, bool counts) {
  losses.push_back(step.loss);
  if (!counts) return;
  times.push_back(step.time);
  passes.push_back(step.passes);
  walls.push_back(wall);
  offloads.push_back(step.offloads);
  prefetches.push_back(step.prefetches);
  total.enqueue += step.enqueue;
  for (const auto& [cause, time] : step.stalls) total.stalls[cause] += time;
  for (const auto& [task, time] : step.tasks) total.tasks[task] += time;
}

Nanoseconds MemoryRun::Median() const { return MedianOf(times); }

CopyTotals MedianOf(const std::vector<CopyTotals>& copies) {
  if (copies.empty()) return {};
  std::vector<Nanoseconds> times;
  for (const CopyTotals& step : copies) times.push_back(step.time);
  CopyTotals median = copies.back();
  median.time = MedianOf(std::move(times));
  return median;
}

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
  const SyntheticBatch images =
      MakeSyntheticBatch(prepared.training, prepared.operations, 2);
  std::ranges::copy(images.images, batch.images.begin());
  std::ranges::copy(images.labels, batch.labels.begin());
  MemoryRun run;
  run.images = batch.memory.size();
  run.host = executor->host_arena();
  if (options.begin) UCUDNN_RETURN_IF_ERROR(options.begin());
  const std::int64_t warm_up = std::min(options.warm_up, options.steps - 1);
  for (std::int64_t i = 0; i < options.steps; ++i) {
    if (stop.stop_requested()) {
      run.interrupted = true;
      break;
    }
    const auto begun = std::chrono::steady_clock::now();
    UCUDNN_ASSIGN_OR_RETURN(const StepReport step, executor->Step(batch));
    run.Add(step, std::chrono::steady_clock::now() - begun, i >= warm_up);
  }
  run.captured = executor->captured();
  run.streams = executor->streams();
  return run;
}

nlohmann::ordered_json ToJson(const PreparedTraining& prepared,
                              const MemoryPlan& plan, const MemoryRun& run) {
  nlohmann::ordered_json json;
  json["batch"] = prepared.training.batch.count();
  json["policy"] = plan.policy;
  json["choice"] = plan.choice;
  json["sub_batch"] = plan.sub_batch.count();
  json["budget_bytes"] = plan.budget.count();
  json["peak_bytes"] = plan.peak.count();
  json["host_bytes"] = run.host.count();
  json["images_host_bytes"] = run.images.count();
  json["offloaded_bytes"] = plan.offloaded.count();
  json["prefetched_bytes"] = plan.prefetched.count();
  const DeviceModel& device = prepared.training.device;
  json["link"] = {{"d2h_gb_per_s", MedianOf(run.offloads).Rate() / 1e3},
                  {"planned_d2h_gb_per_s", device.d2h_rate / 1e3},
                  {"h2d_gb_per_s", MedianOf(run.prefetches).Rate() / 1e3},
                  {"planned_h2d_gb_per_s", device.h2d_rate / 1e3}};
  json["predicted_us"] = Microseconds(plan.time - run.streams.gain());
  json["predicted_passes_us"] = json["predicted_us"];
  json["step_us"] = Microseconds(run.Median());
  json["passes_us"] = Microseconds(MedianOf(run.passes));
  json["wall_us"] = Microseconds(MedianOf(run.walls));
  json["enqueue_us"] = Microseconds(run.total.enqueue / CountedSteps(run));
  json["graphs"] = run.captured.graphs;
  json["graph_bytes"] = run.captured.memory.count();
  json["graph_problem"] = run.captured.problem;
  if (run.streams.asked > 1) json["streams"] = StreamJson(run.streams);
  const Repeated repeated = RepeatedTasks(plan);
  json["recomputed_tasks"] = repeated.tasks;
  json["recomputed_us"] = Microseconds(repeated.time);
  json["lower_bound_us"] = Microseconds(plan.lower_bound);
  json["cut_off"] = plan.cut_off;
  if (plan.ideal_time) json["ideal_us"] = Microseconds(*plan.ideal_time);
  json["predicted_stalls_us"] = StallJson(PlannedStalls(plan));
  json["stalls_us"] = StallJson(run.total.stalls, CountedSteps(run));
  if (!run.total.tasks.empty()) {
    json["task_times"] = TaskJson(prepared, plan, run);
  }
  json["steps_us"] = nlohmann::ordered_json::array();
  for (const Nanoseconds time : run.times) {
    json["steps_us"].push_back(Microseconds(time));
  }
  return json;
}

}  // namespace ucudnn
