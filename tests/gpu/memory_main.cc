// Executes memory plans of networks on a GPU: every policy under several
// budgets, or the largest batch of each policy within one. A line of JSON for
// each row on standard output, what happens on standard error.
//
//   ucudnn_gpu_memory --seconds 200 vgg16.onnx:64:FP32 resnet50.onnx:128:TF32
//   ucudnn_gpu_memory --largest 8589934592 vgg16.onnx:1:FP32
//
// Networks are measured, their plans are made by threads of their own, those of
// the most telling budgets first. Those that copy are tried and made anew with
// the rates that their copies reached, as ucudnn-train does. All then
// run in the order in which they were ready. Nothing begins after the time is
// up; the last line lists what was not run.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/text.h"
#include "base/training/json.h"
#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/operators/operators.h"
#include "device/measure/device_model.h"
#include "tests/gpu/memory/largest.h"
#include "tests/gpu/memory/rows.h"

namespace ucudnn::memory_rows {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::vector<std::string> networks;
  std::vector<int> shares = {50, 25, 70, 35, 15, 100};
  std::vector<std::string> policies = {"best",     "best+recompute", "vdnn-ext",
                                       "vdnn-dyn", "vdnn-all",       "modnn",
                                       "hmms",     "vdnn-conv"};
  double seconds = 200;
  double plan_seconds = 20;
  int threads = 12;
  int steps = 6;
  std::int64_t largest = 0;
  std::string device_model;
  std::string graphs;
};

struct Row {
  Job* job = nullptr;
  int share = 100;
  std::string policy;
  TrainingGraph training;  // with the link's rates for this row
  bool sub_batch_statistics = false;
  double planning_seconds = 0;
  std::optional<Result<MemoryPlan>> plan;
  bool done = false;
};

// Makes plans on threads of its own, in order.
class Planners {
 public:
  Planners(int threads, double seconds) : seconds_(seconds) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back(
          [this](const std::stop_token& stop) { Work(stop); });
    }
  }
  ~Planners() {
    for (std::jthread& thread : threads_) thread.request_stop();
    changed_.notify_all();
  }

  void Submit(Row* row) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(row);
      ++unfinished_;
    }
    changed_.notify_all();
  }
  // The next finished row; null if none is finished by `until`, or none is
  // left.
  Row* Next(Clock::time_point until) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until,
                        [&] { return !finished_.empty() || unfinished_ == 0; });
    if (finished_.empty()) return nullptr;
    Row* const row = finished_.front();
    finished_.pop_front();
    --unfinished_;
    return row;
  }
  bool empty() {
    const std::lock_guard lock(mutex_);
    return unfinished_ == 0;
  }

 private:
  void Work(const std::stop_token& stop) {
    while (true) {
      Row* row = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(
            lock, [&] { return stop.stop_requested() || !waiting_.empty(); });
        if (stop.stop_requested()) return;
        row = waiting_.front();
        waiting_.pop_front();
      }
      Plan(row);
      {
        const std::lock_guard lock(mutex_);
        finished_.push_back(row);
      }
      changed_.notify_all();
    }
  }

  void Plan(Row* row) const {
    const auto begun = Clock::now();
    const bool normalises = row->job->prepared->NormalisesOverImages();
    PlanOptions options = {.budget = row->job->plain * row->share / 100,
                           .sub_batches = !normalises,
                           .seconds = seconds_};
    row->plan = PlanOf(row->training, row->policy, options);
    if (!*row->plan && normalises) {
      options.sub_batches = true;
      auto plan = PlanOf(row->training, row->policy, options);
      row->sub_batch_statistics = plan.has_value();
      if (plan) row->plan = std::move(plan);
    }
    row->planning_seconds +=
        std::chrono::duration<double>(Clock::now() - begun).count();
  }

  const double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Row*> waiting_;
  std::deque<Row*> finished_;
  std::size_t unfinished_ = 0;
  std::vector<std::jthread> threads_;  // last: they use the others
};

// Every policy under every budget.
class Sweep {
 public:
  Sweep(const Arguments& args, RowRunner& runner)
      : args_(args), runner_(runner) {}

  Status Run() {
    Planners planners(args_.threads, args_.plan_seconds);
    std::vector<std::unique_ptr<Job>> jobs;
    std::deque<Row> rows;
    std::size_t next = 0;
    while (next < args_.networks.size() && !IsUp(0.4)) {
      const std::string& spec = args_.networks[next++];
      UCUDNN_RETURN_IF_ERROR(Begin(spec, &jobs, &rows, &planners));
    }
    // Searches use the memory that copies go through, so steps run after them.
    std::vector<Row*> ready;
    std::vector<Row*> again;
    for (Row* const row : Planned(planners, 0.6)) {
      UCUDNN_ASSIGN_OR_RETURN(const bool changed, Try(*row));
      (changed ? again : ready).push_back(row);
    }
    for (Row* const row : again) planners.Submit(row);
    std::ranges::copy(Planned(planners, 0.8), std::back_inserter(ready));
    for (const Row* const row : ready) {
      UCUDNN_RETURN_IF_ERROR(WriteGraph(*row));
    }
    for (Row* const row : ready) {
      if (IsUp()) break;
      UCUDNN_RETURN_IF_ERROR(RunRow(*row));
    }
    PrintEnd(rows, next);
    // Searches that are still under way are of no use.
    std::_Exit(0);
  }

 private:
  bool IsUp(double part = 1) const {
    return runner_.seconds() > args_.seconds * part;
  }

  // What is finished by then.
  std::vector<Row*> Planned(Planners& planners, double part) const {
    std::vector<Row*> planned;
    while (!IsUp(part)) {
      Row* const row = planners.Next(Clock::now() + std::chrono::seconds(1));
      if (row != nullptr) {
        planned.push_back(row);
      } else if (planners.empty()) {
        break;
      }
    }
    return planned;
  }

  // Runs the row's plan, and sets the link's rates of the row to what its
  // copies reach. Returns whether that changed them.
  Result<bool> Try(Row& row) {
    if (!args_.device_model.empty() || !*row.plan ||
        (*row.plan)->offloaded == Bytes()) {
      return false;
    }
    return runner_.MeasureLink(*row.job, **row.plan, &row.training.device);
  }

  void PrintEnd(const std::deque<Row>& rows, std::size_t next) const {
    nlohmann::ordered_json left = nlohmann::ordered_json::array();
    for (; next < args_.networks.size(); ++next) {
      left.push_back(args_.networks[next]);
    }
    for (const Row& row : rows) {
      if (row.done) continue;
      left.push_back(
          fmt::format("{} {} % {}", row.job->spec, row.share, row.policy));
    }
    nlohmann::ordered_json last = {{"not_run", left},
                                   {"seconds", runner_.seconds()}};
    last["h2d_gb_per_s"] = runner_.model().h2d_rate / 1e3;
    last["d2h_gb_per_s"] = runner_.model().d2h_rate / 1e3;
    PrintLine(last);
  }

  Status Begin(const std::string& spec, std::vector<std::unique_ptr<Job>>* jobs,
               std::deque<Row>* rows, Planners* planners) {
    UCUDNN_ASSIGN_OR_RETURN(TrainingInput input, InputOf(spec));
    UCUDNN_ASSIGN_OR_RETURN(auto job, runner_.Prepare(spec, std::move(input)));
    UCUDNN_ASSIGN_OR_RETURN(
        const MemoryPlan plain,
        PlanOf(job->prepared->training, "baseline",
               {.budget = runner_.device().info().kind.memory}));
    job->plain = plain.peak;
    UCUDNN_RETURN_IF_ERROR(runner_.ReserveHost(plain.peak));
    jobs->push_back(std::move(job));
    Job& made = *jobs->back();
    UCUDNN_RETURN_IF_ERROR(runner_.Execute(
        made, "undivided", plain, made.prepared->training.device,
        {{"share", 100}}, {.time_tasks = true}));
    for (const int share : args_.shares) {
      for (const std::string& policy : args_.policies) {
        Row& row = rows->emplace_back();
        row.job = &made;
        row.share = share;
        row.policy = policy;
        row.training = made.prepared->training;
        planners->Submit(&row);
      }
    }
    return {};
  }

  // What the row's plan was made from.
  Status WriteGraph(const Row& row) const {
    if (args_.graphs.empty()) return {};
    const TrainingGraph& graph = row.training;
    return ReplaceFile(
        fmt::format("{}/{}-{}-{}-{}-{}.json", args_.graphs, graph.network,
                    graph.batch.count(), Name(graph.precision), row.share,
                    row.policy),
        ToJson(graph, MeasuredBatchesOf(graph)).dump() + "\n");
  }

  Status RunRow(Row& row) {
    row.done = true;
    const nlohmann::ordered_json more = {
        {"share", row.share},
        {"planning_seconds", row.planning_seconds},
        {"sub_batch_statistics", row.sub_batch_statistics}};
    if (!*row.plan) {
      runner_.PrintNoPlan(*row.job, row.policy, more, row.plan->error());
      return {};
    }
    // Losses with all other memory poisoned where that is the least, and what
    // operators take where predictions matter most.
    return runner_.Execute(
        *row.job, row.policy, **row.plan, row.training.device, more,
        {.poison = row.share == args_.shares[1],
         .time_tasks = row.share == args_.shares[0] || row.share == 100});
  }

  const Arguments& args_;
  RowRunner& runner_;
};

Result<DeviceModel> ModelOf(const Arguments& args, Device& device) {
  if (args.device_model.empty()) return MeasureDeviceModel(device, {}, {});
  UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                          ReadFile(args.device_model, 1_MiB));
  return ParseDeviceModel(text, args.device_model);
}

Status Run(const Arguments& args) {
  CudnnOptions options;
  options.ordinals = {0};
  options.graph = false;
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, OpenCudnnDevices(options));
  UCUDNN_ASSIGN_OR_RETURN(const auto operators,
                          OpenCudnnOperators(*devices.front()));
  UCUDNN_ASSIGN_OR_RETURN(DeviceModel model, ModelOf(args, *devices.front()));
  RowRunner runner(*devices.front(), *operators, std::move(model), args.steps);
  if (args.largest == 0) return Sweep(args, runner).Run();
  LargestOptions largest;
  largest.budget = Bytes(args.largest);
  largest.policies = args.policies;
  largest.policies.insert(largest.policies.begin(), "baseline");
  largest.plan_seconds = args.plan_seconds;
  for (std::size_t i = 0; i < args.networks.size(); ++i) {
    largest.until = args.seconds * static_cast<double>(i + 1) /
                    static_cast<double>(args.networks.size());
    UCUDNN_RETURN_IF_ERROR(RunLargest(runner, args.networks[i], largest));
  }
  return {};
}

int Main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Executes memory plans on a GPU");
  app.add_option("networks", args.networks, "FILE:BATCH:PRECISION")->required();
  app.add_option("--shares", args.shares,
                 "Budgets in percent of the plain peak, two or more; tasks are "
                 "timed under the first, memory is poisoned under the second")
      ->delimiter(',')
      ->expected(2, 100);
  app.add_option("--policies", args.policies)->delimiter(',');
  app.add_option("--seconds", args.seconds, "Begin nothing after them");
  app.add_option("--plan-seconds", args.plan_seconds, "Limit of each search");
  app.add_option("--threads", args.threads, "That plan");
  app.add_option("--steps", args.steps,
                 "Of each row; the first does not count");
  app.add_option("--largest", args.largest,
                 "Bytes: the largest batch that trains at once within them");
  app.add_option("--device-model", args.device_model,
                 "Of the link as JSON, instead of measuring it");
  app.add_option("--graphs", args.graphs,
                 "Folder: write the measured graph of each row, for "
                 "ucudnn solve memory --graph");
  CLI11_PARSE(app, argc, argv);
  const Status status = Run(args);
  if (status) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}

}  // namespace
}  // namespace ucudnn::memory_rows

int main(int argc, char** argv) {
  return ucudnn::memory_rows::Main(argc, argv);
}
