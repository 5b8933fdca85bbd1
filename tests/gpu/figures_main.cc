// ucudnn_gpu_figures: the gain of dividing on GPU 0, as numbers for a table.
//
//   ucudnn_gpu_figures --peers torch.json --networks tests/data/networks
//       --deepbench tests/data/deepbench_conv_training.csv -o DIR [ROW...]
//
// `torch.json` is the output of tests/gpu/torch_peer.py: PyTorch's times for
// each network, batch, precision and layout. ROWs such as "vgg16:64:FP32:NCHW"
// select what to measure, in this order; default: all. Writes figures.json,
// deepbench.json and the measured points of each row as a profile into
// DIR/profiles. Each row is written when it is done, so an interrupted run
// keeps its results; rows from an earlier run under the same versions are kept
// and not measured again.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/training/json.h"
#include "device/cudnn/cudnn_device.h"
#include "device/measure/device_model.h"
#include "tests/gpu/figures/deepbench.h"
#include "tests/gpu/figures/network_figure.h"

namespace ucudnn::figures {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string peers;
  std::string networks;
  std::string deepbench;
  std::string output;
  double seconds = 1e9;  // start nothing after this time
  int engines = 12;      // the first that cuDNN suggests
  bool branches = false;
  int threads = 16;  // for listing engines
  PointOptions points;
  bool time_kernels = true;
  double load = 1;  // seconds that each plan keeps the device busy
  std::vector<std::string> rows;
};

// 8 MiB to 1 GiB, PyTorch's workspace and an eighth of it.
std::vector<Bytes> LimitsFor(Bytes peer) {
  std::vector<Bytes> limits = {Bytes(), peer / 8, peer};
  for (Bytes limit = 8_MiB; limit <= 1_GiB; limit = limit * 2) {
    limits.push_back(limit);
  }
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

Result<Job> JobOf(const Json& peer, const std::string& networks) {
  const std::string network = peer.at("network");
  Job job;
  UCUDNN_ASSIGN_OR_RETURN(
      job.network,
      ReadNetworkFile(networks + "/" + network + ".csv", BatchSize(1)));
  job.batch = BatchSize(peer.at("batch").get<std::int64_t>());
  UCUDNN_ASSIGN_OR_RETURN(
      job.precision, ParsePrecision(peer.at("precision").get<std::string>()));
  UCUDNN_ASSIGN_OR_RETURN(job.layout,
                          ParseLayout(peer.at("layout").get<std::string>()));
  const Bytes workspace(peer.at("workspace_bytes").get<std::int64_t>());
  job.limits = LimitsFor(workspace);
  // The target is an eighth of PyTorch's workspace for NCHW, the same for NHWC.
  job.fit_limits = {64_MiB,
                    job.layout == Layout::kNchw ? workspace / 8 : workspace};
  job.run_limits = job.fit_limits;
  job.detail_limits = {workspace / 8, 64_MiB, workspace};
  return job;
}

Json ToJson(const PointSource::Effort& effort) {
  const auto seconds = [](Nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  return {{"tasks", effort.tasks},
          {"offered", effort.offered},
          {"run_once", effort.run_once},
          {"measured", effort.measured},
          {"failed", effort.failed},
          {"surveying_s", seconds(effort.surveying)},
          {"running_s", seconds(effort.running)},
          {"measuring_s", seconds(effort.measuring)},
          {"fitting_s", seconds(effort.fitting)}};
}

// "vgg16:64:FP32:NCHW"
std::string RowOf(const Json& json) {
  return fmt::format("{}:{}:{}:{}", json.at("network").get<std::string>(),
                     json.at("batch").get<std::int64_t>(),
                     json.at("precision").get<std::string>(),
                     json.at("layout").get<std::string>());
}

// A file of results, each with the run that it comes from.
class Results {
 public:
  // Keeps the file's results that were measured under `versions`; prints how
  // many are not.
  static Result<Results> Open(const std::string& path,
                              const std::string& versions) {
    Results results(path, versions);
    if (!std::filesystem::exists(path)) return results;
    UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 64_MiB));
    const Json known = Json::parse(text, nullptr, false);
    if (!known.is_array()) {
      return Fail(Code::kInvalidArgument, "{}: not a list", path);
    }
    for (const Json& result : known) {
      const auto run = result.find("run");
      if (run != result.end() && run->is_object() &&
          run->value("versions", "") == versions) {
        results.json_.push_back(result);
      }
    }
    fmt::print("{}: {} of {} results are kept\n", path, results.json_.size(),
               known.size());
    return results;
  }

  // Whether there is a result that contains everything in `part`.
  bool Has(const Json& part) const {
    return std::any_of(json_.begin(), json_.end(), [&](const Json& result) {
      return std::all_of(
          part.items().begin(), part.items().end(), [&](const auto& item) {
            return result.value(item.key(), Json()) == item.value();
          });
    });
  }

  Status Add(Json result) {
    result["run"] = {{"begun", begun_}, {"versions", versions_}};
    json_.push_back(std::move(result));
    return ReplaceFile(path_, json_.dump(1));
  }

 private:
  Results(std::string path, std::string versions)
      : path_(std::move(path)), versions_(std::move(versions)) {
    const std::time_t now = std::time(nullptr);
    std::tm utc = {};
    gmtime_r(&now, &utc);
    begun_ = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}Z", utc.tm_year + 1900,
                         utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min);
  }

  std::string path_;
  std::string versions_;
  std::string begun_;
  Json json_ = Json::array();
};

class Report {
 public:
  Report(Device& device, Surveyors& surveyors, Settings settings)
      : device_(device),
        surveyors_(surveyors),
        settings_(std::move(settings)),
        versions_(fmt::format("{}, driver {}", ToString(device.info().kind),
                              device.info().driver)) {}

  Status Networks() {
    UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(settings_.peers, 16_MiB));
    const Json peers = Json::parse(text, nullptr, false);
    if (!peers.is_array()) {
      return Fail(Code::kInvalidArgument, "{}: not a list", settings_.peers);
    }
    std::vector<std::string> rows = settings_.rows;
    if (rows.empty()) {
      for (const Json& peer : peers) rows.push_back(RowOf(peer));
    }
    UCUDNN_ASSIGN_OR_RETURN(
        Results results,
        Results::Open(settings_.output + "/figures.json", versions_));
    const std::string profiles = settings_.output + "/profiles";
    std::filesystem::create_directories(profiles);
    UCUDNN_RETURN_IF_ERROR(MeasureModel());
    PointSource points(device_, surveyors_, settings_.points);
    for (const std::string& row : rows) {
      const auto peer =
          std::find_if(peers.begin(), peers.end(),
                       [&](const Json& p) { return RowOf(p) == row; });
      if (peer == peers.end()) {
        Say(row + " is left out: PyTorch's time is not known");
        continue;
      }
      if (results.Has({{"network", peer->at("network")},
                       {"batch", peer->at("batch")},
                       {"precision", peer->at("precision")},
                       {"layout", peer->at("layout")}})) {
        Say(row + " is there already");
        continue;
      }
      if (TimeIsUp()) break;
      UCUDNN_ASSIGN_OR_RETURN(Job job, JobOf(*peer, settings_.networks));
      job.load = std::chrono::round<Nanoseconds>(
          std::chrono::duration<double>(settings_.load));
      job.device = model_;
      job.time_kernels = settings_.time_kernels;
      UCUDNN_ASSIGN_OR_RETURN(const NetworkFigure figure,
                              MeasureNetwork(device_, points, job));
      Json json = figures::ToJson(job, figure);
      const Json effort = ToJson(points.TakeEffort());
      json["effort"] = effort;
      json["peer"] = *peer;
      UCUDNN_RETURN_IF_ERROR(results.Add(std::move(json)));
      std::string name = row;
      std::replace(name.begin(), name.end(), ':', '_');
      UCUDNN_RETURN_IF_ERROR(ReplaceFile(
          fmt::format("{}/{}.csv", profiles, name), ToCsv(figure.profile)));
      Say(fmt::format("{} {}", row, effort.dump()));
    }
    return {};
  }

  Status DeepBench() {
    constexpr std::int64_t kFactor = 4;
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<BenchLayer> layers,
                            ReadBenchLayers(settings_.deepbench, kFactor));
    UCUDNN_ASSIGN_OR_RETURN(
        Results results,
        Results::Open(settings_.output + "/deepbench.json", versions_));
    struct Task {
      const BenchLayer* layer;
      Precision precision;
    };
    std::vector<Task> tasks;
    // Both precisions of a layer, and layers of all kinds early, because time
    // may run out.
    constexpr std::size_t kStep = 37;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const BenchLayer& layer = layers[i * kStep % layers.size()];
      for (const Precision precision :
           {Precision::kFp32, Precision::kPseudoHalf}) {
        if (!results.Has({{"layer", layer.layer.name},
                          {"batch", layer.batch.count()},
                          {"precision", Name(precision)}})) {
          tasks.push_back({&layer, precision});
        }
      }
    }
    PointSource points(device_, surveyors_, settings_.points);
    // This many at once, so that no thread waits long for the last one.
    constexpr std::size_t kAtOnce = 48;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (TimeIsUp()) break;
      if (i % kAtOnce == 0) {
        std::vector<PointSource::Wanted> wanted;
        for (std::size_t j = i; j < std::min(i + kAtOnce, tasks.size()); ++j) {
          wanted.push_back({ProblemOf(*tasks[j].layer, tasks[j].precision),
                            tasks[j].layer->batch});
        }
        points.Survey(wanted);
        Say(fmt::format("{} of {} layers and precisions", i, tasks.size()));
      }
      UCUDNN_ASSIGN_OR_RETURN(auto json,
                              MeasureBenchLayer(points, *tasks[i].layer,
                                                tasks[i].precision, 64_MiB));
      UCUDNN_RETURN_IF_ERROR(results.Add(std::move(json)));
    }
    Say("deepbench " + ToJson(points.effort()).dump());
    return {};
  }

 private:
  Status MeasureModel() {
    DeviceModelOptions options;
    options.load = std::chrono::seconds(2);
    UCUDNN_ASSIGN_OR_RETURN(model_, MeasureDeviceModel(device_, options, {}));
    const std::string text = ucudnn::ToJson(model_).dump(1);
    Say("the device's model is known");
    return ReplaceFile(settings_.output + "/device-model.json", text);
  }
  bool TimeIsUp() {
    if (Elapsed() < settings_.seconds) return false;
    if (!said_) Say("the time is up: nothing more is begun");
    said_ = true;
    return true;
  }
  double Elapsed() const {
    return std::chrono::duration<double>(Clock::now() - begun_).count();
  }
  void Say(const std::string& line) {
    fmt::print("{:7.1f} s  {}\n", Elapsed(), line);
    std::fflush(stdout);
  }

  Device& device_;
  Surveyors& surveyors_;
  const Settings settings_;
  const std::string versions_;  // results under equal versions are comparable
  DeviceModel model_;
  const Clock::time_point begun_ = Clock::now();
  bool said_ = false;
};

Status Run(const Settings& settings) {
  CudnnOptions options;
  options.ordinals = {0};
  options.most_engines = settings.engines;
  options.branches = settings.branches;
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, OpenCudnnDevices(options));
  Device& device = *devices.front();
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  UCUDNN_ASSIGN_OR_RETURN(
      const auto surveyors,
      Surveyors::Open(device, options,
                      std::clamp(settings.threads, 1, std::max(cores, 1))));
  Report report(device, *surveyors, settings);
  if (!settings.peers.empty()) UCUDNN_RETURN_IF_ERROR(report.Networks());
  if (!settings.deepbench.empty()) UCUDNN_RETURN_IF_ERROR(report.DeepBench());
  return {};
}

}  // namespace
}  // namespace ucudnn::figures

int main(int argc, char** argv) {
  ucudnn::figures::Settings settings;
  CLI::App app("What dividing gains on GPU 0, as numbers for a table");
  app.add_option("--peers", settings.peers, "what torch_peer.py wrote");
  app.add_option("--networks", settings.networks, "the folder of networks");
  app.add_option("--deepbench", settings.deepbench, "DeepBench's layers");
  app.add_option("--seconds", settings.seconds, "begin nothing after so long");
  app.add_option("--engines", settings.engines,
                 "how many of the engines that cuDNN suggests first; 0: all")
      ->capture_default_str();
  app.add_flag("--branches", settings.branches,
               "also algorithms in two parallel branches");
  app.add_option("--threads", settings.threads, "how many list engines")
      ->capture_default_str();
  app.add_option("--step", settings.points.step,
                 "between batches: 2 measures powers of two, 4 every other")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--rivals", settings.points.most_faster,
                 "measure an algorithm unless so many others are faster")
      ->capture_default_str();
  app.add_flag("!--no-kernel-times", settings.time_kernels,
               "do not time each kernel of a plan by itself");
  app.add_option("--load", settings.load,
                 "seconds of each plan for its time under load")
      ->capture_default_str();
  app.add_option("-o,--output", settings.output, "an existing folder")
      ->required();
  app.add_option("rows", settings.rows, "NETWORK:BATCH:PRECISION:LAYOUT");
  CLI11_PARSE(app, argc, argv);
  const auto ran = ucudnn::figures::Run(settings);
  if (ran) return 0;
  fmt::print(stderr, "ucudnn_gpu_figures: {}\n", ran.error().message);
  return 1;
}
