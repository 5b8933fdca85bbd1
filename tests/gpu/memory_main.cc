// Executes memory plans of networks on a GPU: every policy under several
// budgets, or the largest batch that trains within one. A line of JSON for each
// row on standard output, what happens on standard error.
//
//   ucudnn_gpu_memory --seconds 200 vgg16.onnx:64:FP32 resnet50.onnx:128:TF32
//   ucudnn_gpu_memory --largest 8GiB --batches 64,128,256 vgg16.onnx::FP32
//
// A network is measured, its plans are made by threads of their own, and run as
// they are ready, those of the most telling budgets first. Nothing begins after
// the time is up; the last line lists what was not run.

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/service/time_limit.h"
#include "base/text.h"
#include "base/training/json.h"
#include "client/training/memory_run.h"
#include "client/training/prepared_training.h"
#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/operators/operators.h"
#include "device/measure/device_model.h"
#include "solver/memory/bounds.h"
#include "solver/memory/policies.h"

namespace ucudnn {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::vector<std::string> networks;
  std::vector<int> shares = {50, 25, 70, 35, 15, 100};
  std::vector<std::string> policies = {
      "best", "vdnn-ext", "vdnn-dyn", "vdnn-all", "modnn", "hmms", "vdnn-conv"};
  double seconds = 200;
  double plan_seconds = 20;
  int threads = 12;
  int steps = 4;
  std::int64_t largest = 0;
  std::string device_model;
  std::vector<std::int64_t> batches = {64, 128, 192, 256, 384, 512, 768, 1024};
};

// One network with its place among the rows.
struct Job {
  std::string spec;
  TrainingInput input;
  std::unique_ptr<PreparedTraining> prepared;
  Bytes plain;  // peak when nothing leaves
  Nanoseconds plain_step{0};
};

struct Row {
  Job* job = nullptr;
  int share = 100;
  std::string policy;
  bool sub_batch_statistics = false;
  double planning_seconds = 0;
  std::optional<Result<MemoryPlan>> plan;
  bool done = false;
};

double SecondsSince(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

Result<TrainingInput> InputOf(const std::string& spec) {
  const std::size_t first = spec.find(':');
  const std::size_t second = spec.find(':', first + 1);
  if (second == std::string::npos) {
    return Fail(Code::kInvalidArgument,
                "'{}' is no network; FILE:BATCH:PRECISION is accepted", spec);
  }
  TrainingInput input;
  input.source = spec.substr(0, first);
  input.name = NetworkNameOf(input.source);
  input.batch =
      BatchSize(std::atoll(spec.substr(first + 1, second - first - 1).c_str()));
  UCUDNN_ASSIGN_OR_RETURN(input.precision,
                          ParsePrecision(spec.substr(second + 1)));
  UCUDNN_ASSIGN_OR_RETURN(input.contents,
                          ReadFile(input.source, kMaxNetworkFile));
  input.max_workspace = 512_MiB;
  input.repeats = 2;
  return input;
}

Result<MemoryPlan> PlanOf(const PreparedTraining& prepared,
                          const std::string& name, Bytes budget,
                          bool sub_batches, double seconds) {
  UCUDNN_ASSIGN_OR_RETURN(const MemoryPolicy* policy, FindMemoryPolicy(name));
  const TimeLimit limit(RoundUpSeconds(seconds));
  MemoryRequest request;
  request.budget = budget;
  request.stop = limit.token();
  if (!sub_batches) request.sub_batch = prepared.training.batch;
  // Without looking for the least budget where there is no plan.
  auto plan = policy->plan(prepared.training, request);
  if (!plan) return plan;
  plan->policy = name;
  SetBounds(prepared.training, &*plan);
  return plan;
}

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
    const PreparedTraining& prepared = *row->job->prepared;
    const Bytes budget = row->job->plain * row->share / 100;
    const bool normalises = prepared.NormalisesOverImages();
    row->plan = PlanOf(prepared, row->policy, budget, !normalises, seconds_);
    if (!*row->plan && normalises) {
      auto plan = PlanOf(prepared, row->policy, budget, true, seconds_);
      row->sub_batch_statistics = plan.has_value();
      if (plan) row->plan = std::move(plan);
    }
    row->planning_seconds = SecondsSince(begun);
  }

  const double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Row*> waiting_;
  std::deque<Row*> finished_;
  std::size_t unfinished_ = 0;
  std::vector<std::jthread> threads_;  // last: they use the others
};

class Sweep {
 public:
  Sweep(const Arguments& args, Device& device, Operators& operators)
      : args_(args), device_(device), operators_(operators) {}

  Status Run() {
    if (args_.device_model.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(model_, MeasureDeviceModel(device_, {}, {}));
    } else {
      UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                              ReadFile(args_.device_model, 1_MiB));
      UCUDNN_ASSIGN_OR_RETURN(model_,
                              ParseDeviceModel(text, args_.device_model));
    }
    return args_.largest > 0 ? RunLargest() : RunBudgets();
  }

 private:
  bool IsUp(double part = 1) const {
    return SecondsSince(begun_) > args_.seconds * part;
  }

  Result<std::unique_ptr<Job>> Prepare(const std::string& spec,
                                       TrainingInput input) {
    auto job = std::make_unique<Job>();
    job->spec = spec;
    job->input = std::move(input);
    job->input.model = model_;
    const auto begun = Clock::now();
    UCUDNN_ASSIGN_OR_RETURN(
        job->prepared, PrepareTraining(device_, operators_, job->input, {}));
    std::fprintf(stderr, "%6.1f s: measured %s in %.1f s\n",
                 SecondsSince(begun_), spec.c_str(), SecondsSince(begun));
    return job;
  }

  // Runs `plan` and prints its row.
  Status Execute(Job& job, const std::string& policy, const MemoryPlan& plan,
                 nlohmann::ordered_json extra) {
    const auto begun = Clock::now();
    MemoryRunOptions options;
    options.steps = args_.steps;
    options.warm_up = 1;
    options.execution.rate = 1e-3F;
    options.execution.allow_sub_batch_statistics = true;
    auto run = RunMemoryPlan(device_, operators_, *job.prepared, plan, options,
                             {}, &host_);
    nlohmann::ordered_json row;
    row["row"] = job.spec;
    row["asked_policy"] = policy;
    row.update(extra);
    if (run) {
      row.update(ToJson(*job.prepared, plan, *run));
      if (policy == "undivided") job.plain_step = run->Median();
      row["plain_step_us"] = Microseconds(job.plain_step);
      row["plain_bytes"] = job.plain.count();
      if (extra.value("poisoned", false)) {
        options.execution.poison = true;
        const auto poisoned = RunMemoryPlan(device_, operators_, *job.prepared,
                                            plan, options, {}, &host_);
        if (poisoned) row["poisoned_losses"] = poisoned->losses;
      }
    } else {
      row["error"] = run.error().message;
    }
    row["run_seconds"] = SecondsSince(begun);
    std::printf("%s\n", row.dump().c_str());
    std::fflush(stdout);
    // A lost device fails every further row.
    if (!run && run.error().code == Code::kDataLoss) {
      return tl::unexpected<Error>(run.error());
    }
    return {};
  }

  Status RunBudgets() {
    Planners planners(args_.threads, args_.plan_seconds);
    std::vector<std::unique_ptr<Job>> jobs;
    std::deque<Row> rows;
    std::size_t next = 0;
    while (next < args_.networks.size() || !planners.empty()) {
      if (IsUp()) break;
      if (next < args_.networks.size() && !IsUp(0.6)) {
        const std::string& spec = args_.networks[next++];
        UCUDNN_RETURN_IF_ERROR(Begin(spec, &jobs, &rows, &planners));
      } else if (planners.empty()) {
        break;
      }
      // Plans that are ready, for a while before the next network.
      const auto until =
          Clock::now() +
          std::chrono::seconds(next < args_.networks.size() ? 12 : 600);
      while (Clock::now() < until && !IsUp()) {
        Row* const row = planners.Next(
            std::min(until, Clock::now() + std::chrono::seconds(1)));
        if (row == nullptr) {
          if (planners.empty() || next < args_.networks.size()) break;
          continue;
        }
        UCUDNN_RETURN_IF_ERROR(RunRow(*row));
      }
    }
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
                                   {"seconds", SecondsSince(begun_)}};
    last["h2d_gb_per_s"] = model_.h2d_rate / 1e3;
    last["d2h_gb_per_s"] = model_.d2h_rate / 1e3;
    std::printf("%s\n", last.dump().c_str());
    // Searches that are still under way are of no use.
    std::fflush(stdout);
    std::_Exit(0);
  }

  Status Begin(const std::string& spec, std::vector<std::unique_ptr<Job>>* jobs,
               std::deque<Row>* rows, Planners* planners) {
    UCUDNN_ASSIGN_OR_RETURN(TrainingInput input, InputOf(spec));
    UCUDNN_ASSIGN_OR_RETURN(auto job, Prepare(spec, std::move(input)));
    UCUDNN_ASSIGN_OR_RETURN(
        const MemoryPlan plain,
        PlanOf(*job->prepared, "baseline", device_.info().kind.memory, false,
               args_.plan_seconds));
    job->plain = plain.peak;
    // At once, because pinning memory takes seconds.
    if (host_.size() < plain.peak) {
      host_.Reset();
      UCUDNN_ASSIGN_OR_RETURN(host_, device_.AllocateHost(plain.peak));
    }
    jobs->push_back(std::move(job));
    Job& made = *jobs->back();
    for (const int share : args_.shares) {
      for (const std::string& policy : args_.policies) {
        Row& row = rows->emplace_back();
        row.job = &made;
        row.share = share;
        row.policy = policy;
        planners->Submit(&row);
      }
    }
    return Execute(made, "undivided", plain, {{"share", 100}});
  }

  Status RunRow(Row& row) {
    row.done = true;
    nlohmann::ordered_json extra = {
        {"share", row.share},
        {"planning_seconds", row.planning_seconds},
        {"sub_batch_statistics", row.sub_batch_statistics},
        // Once for each policy: the same losses with all else poisoned.
        {"poisoned", row.share == 35}};
    if (*row.plan) return Execute(*row.job, row.policy, **row.plan, extra);
    nlohmann::ordered_json json;
    json["row"] = row.job->spec;
    json["asked_policy"] = row.policy;
    json.update(extra);
    json["no_plan"] = row.plan->error().message;
    std::printf("%s\n", json.dump().c_str());
    std::fflush(stdout);
    return {};
  }

  // Every policy, without sub-batches, on growing batches until none has a
  // plan.
  Status RunLargest() {
    nlohmann::ordered_json left = nlohmann::ordered_json::array();
    for (const std::string& spec : args_.networks) {
      UCUDNN_ASSIGN_OR_RETURN(const TrainingInput input, InputOf(spec));
      std::vector<std::string> alive = args_.policies;
      alive.insert(alive.begin(), "baseline");
      for (const std::int64_t batch : args_.batches) {
        const std::string name =
            fmt::format("{}:{}:{}", input.source, batch, Name(input.precision));
        if (alive.empty()) break;
        if (IsUp()) {
          left.push_back(name);
          continue;
        }
        TrainingInput sized = input;
        sized.batch = BatchSize(batch);
        sized.max_workspace = 256_MiB;
        UCUDNN_ASSIGN_OR_RETURN(auto job, Prepare(name, std::move(sized)));
        std::erase_if(alive, [&](const std::string& policy) {
          const auto plan = PlanOf(*job->prepared, policy, Bytes(args_.largest),
                                   false, args_.plan_seconds);
          if (!plan || IsUp()) return true;
          return !Execute(*job, policy, *plan, {{"largest", args_.largest}});
        });
      }
    }
    std::printf("%s\n",
                nlohmann::ordered_json(
                    {{"not_run", left}, {"seconds", SecondsSince(begun_)}})
                    .dump()
                    .c_str());
    return {};
  }

  const Arguments& args_;
  Device& device_;
  Operators& operators_;
  const Clock::time_point begun_ = Clock::now();
  DeviceModel model_;
  DeviceBuffer host_;
};

Status Run(const Arguments& args) {
  CudnnOptions options;
  options.ordinals = {0};
  options.graph = false;
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, OpenCudnnDevices(options));
  UCUDNN_ASSIGN_OR_RETURN(const auto operators,
                          OpenCudnnOperators(*devices.front()));
  return Sweep(args, *devices.front(), *operators).Run();
}

int Main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Executes memory plans on a GPU");
  app.add_option("networks", args.networks, "FILE:BATCH:PRECISION")->required();
  app.add_option("--shares", args.shares,
                 "Budgets in percent of the plain peak")
      ->delimiter(',');
  app.add_option("--policies", args.policies)->delimiter(',');
  app.add_option("--seconds", args.seconds, "Begin nothing after them");
  app.add_option("--plan-seconds", args.plan_seconds, "Limit of each search");
  app.add_option("--threads", args.threads, "That plan");
  app.add_option("--steps", args.steps,
                 "Of each row; the first does not count");
  app.add_option("--largest", args.largest,
                 "Bytes: the largest of the batches that trains within them");
  app.add_option("--device-model", args.device_model,
                 "Of the link as JSON, instead of measuring it");
  app.add_option("--batches", args.batches)->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  const Status status = Run(args);
  if (status) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
