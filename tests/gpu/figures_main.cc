// ucudnn_gpu_figures: what dividing gains on GPU 0, as numbers for a table.
//
//   ucudnn_gpu_figures --peers torch.json --networks tests/data/networks
//       --deepbench tests/data/deepbench_conv_training.csv -o DIR
//
// `torch.json` is what tests/gpu/torch_peer.py writes, and says which networks
// to measure, at which batch, precision and layout, and what PyTorch needs for
// them. Writes figures.json, deepbench.json and the measured points of each
// network as a profile. Results are written as they come, so that a run that
// is cut short leaves what it has.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/network_file.h"
#include "device/cudnn/cudnn_device.h"
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
  double seconds = 1e9;  // begin nothing after so long
  int engines = 12;      // of those that cuDNN suggests first
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
  // NCHW is to do with an eighth of PyTorch's workspace, NHWC with as much.
  job.fit_limits = {64_MiB,
                    job.layout == Layout::kNchw ? workspace / 8 : workspace};
  job.run_limits = job.fit_limits;
  return job;
}

Json ToJson(const PointSource::Effort& effort) {
  const auto seconds = [](Nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  return {{"tasks", effort.tasks},
          {"listed", effort.listed},
          {"run_once", effort.run_once},
          {"measured", effort.measured},
          {"failed", effort.failed},
          {"listing_s", seconds(effort.listing)},
          {"running_s", seconds(effort.running)},
          {"measuring_s", seconds(effort.measuring)}};
}

class Report {
 public:
  Report(Device& device, Settings settings)
      : device_(device), settings_(std::move(settings)) {}

  Status Networks() {
    UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(settings_.peers, 16_MiB));
    const Json peers = Json::parse(text, nullptr, false);
    if (!peers.is_array()) {
      return Fail(Code::kInvalidArgument, "{}: not a list", settings_.peers);
    }
    Json figures = Json::array();
    for (const Json& peer : peers) {
      if (TimeIsUp()) break;
      UCUDNN_ASSIGN_OR_RETURN(const Job job, JobOf(peer, settings_.networks));
      PointSource points(device_, options_);
      UCUDNN_ASSIGN_OR_RETURN(const NetworkFigure figure,
                              MeasureNetwork(device_, points, job));
      Json json = figures::ToJson(job, figure);
      json["effort"] = ToJson(points.effort());
      json["peer"] = peer;
      figures.push_back(std::move(json));
      const std::string name =
          fmt::format("{}_b{}_{}_{}", job.network.name, job.batch.count(),
                      Name(job.precision), Name(job.layout));
      UCUDNN_RETURN_IF_ERROR(
          ReplaceFile(settings_.output + "/figures.json", figures.dump(1)));
      profile_.kernels.insert(profile_.kernels.end(),
                              figure.profile.kernels.begin(),
                              figure.profile.kernels.end());
      UCUDNN_RETURN_IF_ERROR(
          ReplaceFile(settings_.output + "/profile.csv", ToCsv(profile_)));
      Say(fmt::format("{} {}", name, ToJson(points.effort()).dump()));
    }
    return {};
  }

  Status DeepBench() {
    constexpr std::int64_t kFactor = 4;
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<BenchLayer> layers,
                            ReadBenchLayers(settings_.deepbench, kFactor));
    // Both precisions of a layer, and layers of all kinds soon, since the time
    // may not suffice for all of them.
    constexpr std::size_t kStep = 37;
    Json results = Json::array();
    std::map<Precision, std::unique_ptr<PointSource>> points;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const BenchLayer& layer = layers[i * kStep % layers.size()];
      for (const Precision precision :
           {Precision::kFp32, Precision::kPseudoHalf}) {
        if (TimeIsUp()) break;
        auto& source = points[precision];
        if (source == nullptr) {
          source = std::make_unique<PointSource>(device_, options_);
        }
        UCUDNN_ASSIGN_OR_RETURN(
            auto json, MeasureBenchLayer(*source, layer, precision, 64_MiB));
        results.push_back(std::move(json));
        UCUDNN_RETURN_IF_ERROR(
            ReplaceFile(settings_.output + "/deepbench.json", results.dump(1)));
      }
    }
    for (const auto& [precision, source] : points) {
      Say(fmt::format("deepbench {} {}", Name(precision),
                      ToJson(source->effort()).dump()));
    }
    return {};
  }

 private:
  bool TimeIsUp() {
    if (Elapsed() < settings_.seconds) return false;
    if (!told_) Say("the time is up: nothing more is begun");
    told_ = true;
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
  const Settings settings_;
  PointOptions options_;
  Profile profile_;
  const Clock::time_point begun_ = Clock::now();
  bool told_ = false;
};

Status Run(const Settings& settings) {
  CudnnOptions options;
  options.ordinals = {0};
  options.most_engines = settings.engines;
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, OpenCudnnDevices(options));
  Report report(*devices.front(), settings);
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
  app.add_option("-o,--output", settings.output, "an existing folder")
      ->required();
  CLI11_PARSE(app, argc, argv);
  const auto ran = ucudnn::figures::Run(settings);
  if (ran) return 0;
  fmt::print(stderr, "ucudnn_gpu_figures: {}\n", ran.error().message);
  return 1;
}
