// ucudnn_gpu_cold: whether measurements with operands in the device's cache, or
// not in it, predict the time of a plan's kernels in a row.
//
//   ucudnn_gpu_cold --networks tests/data/networks -o DIR
//       [NETWORK:BATCH[:PRECISION]...]
//
// For each network, in NCHW and, unless named, FP32, it makes plans for one
// workspace limit per kernel, with powers of two, once from hot and once from
// cold measurements. For each plan it measures in turns the kernels by
// themselves, hot and cold, and the plan in rows (RowKind), from one with the
// same operands for all kernels, as ucudnn-rehearse and the drop-in handle's
// timing run it, to one in which no kernel reads what another one has just
// used. It also reports each kernel's part of the rows. Tables go to standard
// output, all numbers to DIR/cold.json. Without a GPU, or with --cpu, it
// measures the CPU.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/median.h"
#include "base/onnx/network_file.h"
#include "client/executor/executor.h"
#include "device/measure/measure.h"
#include "device/registry.h"
#include "solver/micro_batch/wr.h"
#include "tests/gpu/cold/row.h"

namespace ucudnn::cold {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string networks = "tests/data/networks";
  std::string output;
  // What plans are made from, the most informative first.
  std::vector<std::string> plans = {"hot", "cold"};
  std::vector<std::string> rows = {"resnet18:128", "alexnet_torchvision:256",
                                   "vgg16:64"};
  std::int64_t limit_mib = 64;
  double seconds = 75;  // start no plan after this time
  double cold = 2;      // operand size in multiples of the cache
  int rounds = 7;       // of rows
  int repeats = 5;      // of a measurement, at most
  // The length of a repeat; as long as a kernel's part of a row if others use
  // the device, so that they disturb both alike.
  std::int64_t group_ms = 3;
  std::int64_t only = 0;  // measure only micro-batches of this size
  bool cpu = false;
  int threads = 0;
};

struct Job {
  std::string name;
  BatchSize batch;
  Precision precision = Precision::kFp32;
  std::vector<Kernel> kernels;
};

// How a plan runs in a row, each a step nearer to how points are measured.
enum RowKind : std::size_t {
  kShared,  // the same operands for all kernels, in the network's order
  kOwn,     // each layer's, in the order of training
  kApart,   // the same, and nothing that another kernel reads or writes
  kRowKinds,
};
constexpr std::array<const char*, kRowKinds> kRowNames = {"row", "own_row",
                                                          "apart"};

struct Sample {
  Nanoseconds median{0};
  Nanoseconds spread{0};
  // The minimum of the repeats: the time without disturbance.
  Nanoseconds least{0};
};

Sample SampleOf(const std::vector<Nanoseconds>& times) {
  const MedianAndSpread summary = MedianAndSpreadOf(times);
  return {summary.median, summary.spread, *std::ranges::min_element(times)};
}

// The times of one kernel, or of all of them.
struct Times {
  Nanoseconds planned{0};              // when the plan was made
  Sample hot;                          // by itself, measured again
  Sample cold;                         // the same, on other operands each time
  std::array<Sample, kRowKinds> rows;  // in a row

  std::vector<Sample*> all() {
    std::vector<Sample*> samples = {&hot, &cold};
    for (Sample& row : rows) samples.push_back(&row);
    return samples;
  }
};

// The clocks at the end of each way of measuring.
struct Clocks {
  std::array<std::string, 2> alone;  // hot, cold
  std::array<std::string, kRowKinds> rows;
};

class Experiment {
 public:
  Experiment(Device& device, const Settings& settings)
      : device_(device), settings_(settings), bench_(device) {}

  Status Run() {
    std::vector<Job> jobs;
    for (const std::string& row : settings_.rows) {
      UCUDNN_ASSIGN_OR_RETURN(Job job, JobOf(row));
      jobs.push_back(std::move(job));
    }
    json_ = {{"device", ToString(device_.info().kind)},
             {"driver", ConditionsOf(device_.info())},
             {"cache_bytes", device_.cache().count()},
             {"method", MethodText(device_, Options(settings_.cold))},
             {"cold", settings_.cold},
             {"limit_mib", settings_.limit_mib},
             {"plans", Json::array()}};
    fmt::print("{}, {}, cache {}\n", ToString(device_.info().kind),
               ConditionsOf(device_.info()), HumanBytes(device_.cache()));
    for (const std::string& from : settings_.plans) {
      const double cold = from == "cold" ? settings_.cold : 0.0;
      for (const Job& job : jobs) {
        if (Elapsed() > settings_.seconds) {
          fmt::print("the time is up: {}, {}, is left out\n", job.name,
                     Word(cold));
          continue;
        }
        UCUDNN_RETURN_IF_ERROR(Within(job.name, RunPlan(job, cold)));
      }
    }
    return {};
  }

 private:
  static const char* Word(double cold) { return cold > 0 ? "cold" : "hot"; }
  static Status Within(const std::string& where, Status status) {
    if (status) return status;
    return ucudnn::Within(where, std::move(status).error());
  }

  double Elapsed() const {
    return std::chrono::duration<double>(Clock::now() - begun_).count();
  }

  MeasureOptions Options(double cold) const {
    MeasureOptions options;
    options.max_repeats = std::max(settings_.repeats, options.min_repeats);
    options.max_workspace = 1_MiB * settings_.limit_mib;
    options.group_time = std::chrono::milliseconds(settings_.group_ms);
    options.cold = cold;
    return options;
  }

  // "resnet18:128" or "resnet18:128:TF32"
  Result<Job> JobOf(const std::string& row) const {
    const std::size_t colon = row.find(':');
    if (colon == std::string::npos) {
      return Fail(Code::kInvalidArgument,
                  "'{}': NETWORK:BATCH[:PRECISION] is accepted, such as "
                  "resnet18:128",
                  row);
    }
    const std::size_t second = row.find(':', colon + 1);
    auto batch =
        ParseInteger(row.substr(colon + 1, second - colon - 1), 1, 4096);
    if (!batch) return ucudnn::Within(row, std::move(batch).error());
    Job job{.name = row, .batch = BatchSize(*batch), .kernels = {}};
    if (second != std::string::npos) {
      UCUDNN_ASSIGN_OR_RETURN(job.precision,
                              ParsePrecision(row.substr(second + 1)));
    }
    UCUDNN_ASSIGN_OR_RETURN(
        const Network network,
        ReadNetworkFile(
            fmt::format("{}/{}.csv", settings_.networks, row.substr(0, colon)),
            job.batch));
    job.kernels = KernelsOf(network, job.precision, Layout::kNchw);
    return job;
  }

  // Large ones first, so that buffers are allocated once.
  std::vector<BatchSize> BatchesOf(BatchSize batch) const {
    if (settings_.only > 0) return {BatchSize(settings_.only)};
    std::vector<BatchSize> batches = {batch};
    for (std::int64_t n = 4096; n >= 1; n /= 2) {
      if (n < batch.count()) batches.emplace_back(n);
    }
    return batches;
  }

  Result<WorkspacePlan> MakePlan(const Job& job, double cold) {
    std::map<ConvProblem, std::vector<MeasuredPoint>> known;
    Profile profile;
    for (const Kernel& kernel : job.kernels) {
      const auto [entry, is_new] = known.try_emplace(kernel.problem);
      if (is_new) {
        for (const BatchSize batch : BatchesOf(job.batch)) {
          UCUDNN_ASSIGN_OR_RETURN(
              auto points,
              bench_.Measure(kernel.problem, batch, Options(cold), {}, {}));
          std::ranges::move(points, std::back_inserter(entry->second));
        }
        std::ranges::sort(entry->second, {}, [](const MeasuredPoint& p) {
          return std::tie(p.batch, p.algorithm, p.workspace);
        });
      }
      KernelProfile& measured = profile.kernels.emplace_back();
      measured.id = {ToString(device_.info().kind),
                     job.name,
                     kernel.layer,
                     kernel.op,
                     job.precision,
                     Layout::kNchw};
      measured.points = entry->second;
    }
    UCUDNN_ASSIGN_OR_RETURN(
        WorkspacePlan plan,
        SolveWr(profile,
                {job.batch, 1_MiB * settings_.limit_mib, BatchPolicy::kAll}));
    for (std::size_t k = 0; k < job.kernels.size(); ++k) {
      plan.kernels[k].problem = job.kernels[k].problem;
    }
    return plan;
  }

  Status RunPlan(const Job& job, double cold) {
    const double begun = Elapsed();
    UCUDNN_ASSIGN_OR_RETURN(const WorkspacePlan plan, MakePlan(job, cold));
    const double measuring = Elapsed() - begun;
    UCUDNN_ASSIGN_OR_RETURN(const auto executor,
                            Executor::Create(device_, plan));
    std::vector<Times> kernels(plan.kernels.size());
    Times total;
    Clocks clocks;
    UCUDNN_RETURN_IF_ERROR(
        Measure(job, plan, *executor, &kernels, &total, &clocks));
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      kernels[k].planned = plan.kernels[k].time;
      total.planned += kernels[k].planned;
      for (Sample Times::*way : {&Times::hot, &Times::cold}) {
        (total.*way).median += (kernels[k].*way).median;
        (total.*way).spread += (kernels[k].*way).spread;
      }
      // The parts of an undisturbed row come from other rows.
      const std::vector<Sample*> to = total.all();
      const std::vector<Sample*> from = kernels[k].all();
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i]->least += from[i]->least;
    }
    Print(job, plan, cold, kernels, total, clocks);
    fmt::print("measured in {:.1f} s, all in {:.1f} s\n", measuring,
               Elapsed() - begun);
    for (const Executor::Fallback& fallback : executor->fallbacks()) {
      fmt::print("not as planned: {}: {}\n",
                 plan.kernels[fallback.kernel].layer, fallback.why.message);
    }
    std::fflush(stdout);
    json_["plans"].push_back(ToJson(job, plan, cold, kernels, total, clocks));
    json_["plans"].back()["measuring_s"] = measuring;
    // Save finished results, in case the rest fails.
    return ReplaceFile(settings_.output + "/cold.json", json_.dump(1));
  }

  // Times of a row: in total, and of each kernel.
  struct RowTimes {
    std::vector<Nanoseconds> wholes;
    std::vector<std::vector<Nanoseconds>> parts;
  };
  using Events = std::vector<std::unique_ptr<Event>>;
  using Key = std::tuple<ConvProblem, BatchSize, Algorithm>;
  // Times of a micro-batch by itself.
  struct AloneTimes {
    std::vector<Nanoseconds> writing;
    std::vector<Nanoseconds> adding;
  };
  using HotAndCold = std::map<Key, std::array<AloneTimes, 2>>;

  // Everything in turns, so that changes over time affect all alike.
  Status Measure(const Job& job, const WorkspacePlan& plan, Executor& executor,
                 std::vector<Times>* kernels, Times* total, Clocks* clocks) {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto of_layers,
        RowOperands::Create(device_, job.kernels, job.batch, false));
    UCUDNN_ASSIGN_OR_RETURN(
        const auto of_kernels,
        RowOperands::Create(device_, job.kernels, job.batch, true));
    Events events(executor.size() + 1);
    for (auto& event : events) {
      UCUDNN_ASSIGN_OR_RETURN(event, device_.MakeEvent());
    }
    std::array<RowTimes, kRowKinds> rows;
    for (RowTimes& row : rows) row.parts.resize(executor.size());
    HotAndCold alone;
    for (int round = 0; round < settings_.rounds; ++round) {
      for (std::size_t kind = 0; kind < kRowKinds; ++kind) {
        UCUDNN_RETURN_IF_ERROR(RunRow(job, executor,
                                      kind == kApart ? *of_kernels : *of_layers,
                                      static_cast<RowKind>(kind), events,
                                      &rows[kind], &clocks->rows[kind]));
      }
      UCUDNN_RETURN_IF_ERROR(
          MeasureAlone(plan, round % 2 == 1, &alone, &clocks->alone));
    }
    for (std::size_t kind = 0; kind < kRowKinds; ++kind) {
      total->rows[kind] = SampleOf(rows[kind].wholes);
      total->rows[kind].least = Nanoseconds(0);
    }
    for (std::size_t k = 0; k < kernels->size(); ++k) {
      Times& kernel = (*kernels)[k];
      for (std::size_t kind = 0; kind < kRowKinds; ++kind) {
        kernel.rows[kind] = SampleOf(rows[kind].parts[k]);
      }
      for (const bool cold : {false, true}) {
        SumOfMicroBatches(plan.kernels[k], alone, cold,
                          cold ? &kernel.cold : &kernel.hot);
      }
    }
    return {};
  }

  static void SumOfMicroBatches(const KernelPlan& kernel,
                                const HotAndCold& alone, bool cold,
                                Sample* sum) {
    bool writes = true;
    const auto add = [&](const std::vector<Nanoseconds>& times,
                         std::int64_t count) {
      const Sample one = SampleOf(times);
      sum->median += one.median * count;
      sum->spread += one.spread * count;
      sum->least += one.least * count;
    };
    for (const MicroBatch& micro : kernel.micro_batches) {
      const AloneTimes& times =
          alone.at({*kernel.problem, micro.batch, micro.algorithm})[cold];
      if (writes) add(times.writing, 1);
      add(times.adding, micro.count - (writes ? 1 : 0));
      writes = false;
    }
  }

  // One row to warm up, one for the total, and one for the parts, because
  // recording parts takes time.
  Status RunRow(const Job& job, Executor& executor, const RowOperands& operands,
                RowKind kind, const Events& events, RowTimes* times,
                std::string* clocks) {
    std::vector<std::size_t> order(executor.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    if (kind != kShared) order = RowOperands::TrainingOrder(job.kernels);
    const auto run = [&](std::size_t k) {
      const Kernel& kernel = job.kernels[k];
      return executor.Run(
          k, kind == kShared ? operands.Shared() : operands.Own(kernel));
    };
    const auto all = [&]() -> Status {
      for (const std::size_t k : order) UCUDNN_RETURN_IF_ERROR(run(k));
      return {};
    };
    UCUDNN_RETURN_IF_ERROR(device_.Time(all));
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds whole, device_.Time(all));
    times->wholes.push_back(whole);
    UCUDNN_RETURN_IF_ERROR(events[0]->Set());
    for (std::size_t i = 0; i < order.size(); ++i) {
      UCUDNN_RETURN_IF_ERROR(run(order[i]));
      UCUDNN_RETURN_IF_ERROR(events[i + 1]->Set());
    }
    *clocks = ClocksNow();  // the GPU is still busy
    UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
    for (std::size_t i = 0; i < order.size(); ++i) {
      UCUDNN_ASSIGN_OR_RETURN(times->parts[order[i]].emplace_back(),
                              events[i + 1]->Since(*events[i]));
    }
    return {};
  }

  // Each micro-batch once by itself, hot and cold; once for layers of equal
  // shape.
  Status MeasureAlone(const WorkspacePlan& plan, bool cold_first,
                      HotAndCold* times, std::array<std::string, 2>* clocks) {
    std::set<Key> seen;
    for (const KernelPlan& kernel : plan.kernels) {
      const ConvProblem& problem = *kernel.problem;
      for (const MicroBatch& micro : kernel.micro_batches) {
        const Key key = {problem, micro.batch, micro.algorithm};
        if (!seen.insert(key).second) continue;
        for (const bool cold : {cold_first, !cold_first}) {
          MeasureOptions options = Options(cold ? settings_.cold : 0);
          options.min_repeats = options.max_repeats = 1;
          options.max_outliers = 0;
          UCUDNN_ASSIGN_OR_RETURN(
              const MeasuredPoint point,
              bench_.MeasureAlgorithm(problem, micro.batch,
                                      {micro.algorithm, micro.workspace},
                                      options, {}, {}));
          (*times)[key][cold].writing.push_back(point.time);
          (*times)[key][cold].adding.push_back(AddingTime(point));
          (*clocks)[cold] = ClocksNow();
        }
      }
    }
    return {};
  }

  std::string ClocksNow() const {
    const DeviceClocks clocks = ClocksOf(device_.info());
    if (clocks.sm_mhz == 0) return "unknown";
    return fmt::format("{} MHz{}{}", clocks.sm_mhz,
                       clocks.throttle.empty() ? "" : ", slowed by ",
                       clocks.throttle);
  }

  static std::string Describe(const KernelPlan& kernel) {
    std::string text;
    for (const MicroBatch& m : kernel.micro_batches) {
      text += fmt::format("{}{} x {} {}", text.empty() ? "" : ", ",
                          m.batch.count(), m.count, m.algorithm.name);
    }
    return text;
  }

  static double Off(Nanoseconds measured, Nanoseconds predicted) {
    return 100 * (static_cast<double>(measured.count()) /
                      static_cast<double>(predicted.count()) -
                  1);
  }

  static void PrintLine(const std::string& name, const Times& t,
                        Nanoseconds Sample::*time) {
    const Nanoseconds cold = t.cold.*time;
    fmt::print("{:34} {:>10.1f} {:>10.1f} {:>10.1f}", name,
               Microseconds(t.planned), Microseconds(t.hot.*time),
               Microseconds(cold));
    for (const Sample& row : t.rows) {
      fmt::print(" {:>10.1f}", Microseconds(row.*time));
    }
    fmt::print(" {:>6.1f}", Off(t.hot.*time, cold));
    for (const Sample& row : t.rows) {
      fmt::print(" {:>6.1f}", Off(row.*time, cold));
    }
  }

  // The sums of the kernels' parts, which have an event each between them.
  static void PrintOperation(ConvOp op, const WorkspacePlan& plan,
                             const std::vector<Times>& kernels) {
    Times sum;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      if (plan.kernels[k].op != op) continue;
      Times kernel = kernels[k];
      sum.planned += kernel.planned;
      const std::vector<Sample*> to = sum.all();
      const std::vector<Sample*> from = kernel.all();
      for (std::size_t i = 0; i < to.size(); ++i) {
        to[i]->median += from[i]->median;
      }
    }
    PrintLine(fmt::format("all {}", Name(op)), sum, &Sample::median);
    fmt::print("\n");
  }

  void Print(const Job& job, const WorkspacePlan& plan, double cold,
             const std::vector<Times>& kernels, const Times& total,
             const Clocks& clocks) const {
    fmt::print("\n{}, {} MiB, planned from {} measurements; us\n", job.name,
               settings_.limit_mib, Word(cold));
    fmt::print("{:34} {:>10} {:>10} {:>10}", "kernel", "planned", "hot",
               "cold");
    for (const char* const name : kRowNames) fmt::print(" {:>10}", name);
    fmt::print("  % off cold: hot and rows\n");
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      PrintLine(
          fmt::format("{} {}", plan.kernels[k].layer, Name(plan.kernels[k].op)),
          kernels[k], &Sample::median);
      fmt::print("  {}\n", Describe(plan.kernels[k]));
    }
    for (const ConvOp op :
         {ConvOp::kForward, ConvOp::kBackwardData, ConvOp::kBackwardFilter}) {
      PrintOperation(op, plan, kernels);
    }
    PrintLine("all", total, &Sample::median);
    fmt::print("\n");
    PrintLine("all, the least of each", total, &Sample::least);
    fmt::print("\nclocks: hot {}; cold {}", clocks.alone[0], clocks.alone[1]);
    for (std::size_t kind = 0; kind < kRowKinds; ++kind) {
      fmt::print("; {} {}", kRowNames[kind], clocks.rows[kind]);
    }
    fmt::print("\noff the plan's time");
    for (std::size_t kind = 0; kind < kRowKinds; ++kind) {
      fmt::print("{} {} {:+.1f} % (spread {:.1f})", kind > 0 ? "," : ":",
                 kRowNames[kind], Off(total.rows[kind].median, total.planned),
                 Microseconds(total.rows[kind].spread));
    }
    fmt::print("\n");
  }

  static Json ToJson(const Sample& s) {
    return {{"median_us", Microseconds(s.median)},
            {"spread_us", Microseconds(s.spread)},
            {"least_us", Microseconds(s.least)}};
  }
  static Json ToJson(const Times& t) {
    Json json = {{"planned_us", Microseconds(t.planned)},
                 {"hot", ToJson(t.hot)},
                 {"cold", ToJson(t.cold)}};
    for (std::size_t kind = 0; kind < kRowKinds; ++kind) {
      json[kRowNames[kind]] = ToJson(t.rows[kind]);
    }
    return json;
  }

  static Json ToJson(const Job& job, const WorkspacePlan& plan, double cold,
                     const std::vector<Times>& kernels, const Times& total,
                     const Clocks& clocks) {
    Json json = {
        {"network", job.name},
        {"planned_from", Word(cold)},
        {"total", ToJson(total)},
        {"clocks", {{"hot", clocks.alone[0]}, {"cold", clocks.alone[1]}}}};
    for (std::size_t kind = 0; kind < kRowKinds; ++kind) {
      json["clocks"][kRowNames[kind]] = clocks.rows[kind];
    }
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      Json kernel = {{"layer", plan.kernels[k].layer},
                     {"op", Name(plan.kernels[k].op)},
                     {"micro_batches", Describe(plan.kernels[k])},
                     {"workspace_bytes", plan.kernels[k].workspace.count()}};
      kernel.update(ToJson(kernels[k]));
      json["kernels"].push_back(std::move(kernel));
    }
    return json;
  }

  Device& device_;
  const Settings& settings_;
  MeasureBench bench_;
  Json json_;
  const Clock::time_point begun_ = Clock::now();
};

Status Run(const Settings& settings) {
  DeviceOptions options;
  options.gpus = !settings.cpu;
  options.quick_listing = true;
  options.cpu_threads = settings.threads;
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, OpenDevices(options));
  return Experiment(*devices.front(), settings).Run();
}

}  // namespace
}  // namespace ucudnn::cold

int main(int argc, char** argv) {
  ucudnn::cold::Settings settings;
  CLI::App app("Hot and cold measurements against plans in a row");
  app.add_option("--networks", settings.networks, "the folder of networks")
      ->capture_default_str();
  app.add_option("--limit-mib", settings.limit_mib, "of a kernel's workspace")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--seconds", settings.seconds, "begin no plan after so long")
      ->capture_default_str();
  app.add_option("--cold", settings.cold, "so many times the device's cache")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  app.add_option("--rounds", settings.rounds, "how often rows are run")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--repeats", settings.repeats, "of a measurement, at most")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  app.add_option("--group-ms", settings.group_ms, "of a repeat, at least")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--only", settings.only,
                 "micro-batches of this size alone, which divides the batches")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--cpu", settings.cpu, "as if there were no GPU");
  app.add_option("--threads", settings.threads, "of the CPU; 0: all")
      ->check(CLI::Range(0, 4096));
  app.add_option("-o,--output", settings.output, "an existing folder")
      ->required();
  app.add_option("--plans", settings.plans, "what plans are made from")
      ->delimiter(',')
      ->check(CLI::IsMember({"hot", "cold"}))
      ->capture_default_str();
  app.add_option("rows", settings.rows, "NETWORK:BATCH[:PRECISION]")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto ran = ucudnn::cold::Run(settings);
  if (ran) return 0;
  fmt::print(stderr, "ucudnn_gpu_cold: {}\n", ran.error().message);
  return 1;
}
