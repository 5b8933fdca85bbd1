// The cost of measuring AlexNet for plans under each batch-size policy on this
// machine's first GPU, and the quality of the plans: FP32, NCHW, cuDNN's legacy
// API, one workspace limit per kernel.
//
//   ucudnn_gpu_policies [--seconds 200] [--batch 256] [--replay FILE]
//       [--network FILE]
//
// It measures for adaptive one limit after the other, for powerOfTwo once, and
// then for `all`, kernel by kernel, as long as --seconds allows. Times taken at
// different moments cannot rank plans, so two tables value the plans of all
// policies by the same times: one, for every kernel, by times of the points
// that any plan uses, measured again in turns; the other, for the kernels that
// `all` has finished, by its own times. --replay uses a recorded profile
// instead of the GPU.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/median.h"
#include "base/onnx/network_file.h"
#include "device/cudnn/cudnn_device.h"
#include "device/measure/campaign.h"
#include "solver/micro_batch/wr.h"
#include "tests/support/recorded_device.h"

namespace ucudnn {
namespace {

// Typical limits, in the order in which users request them.
constexpr std::array kLimitsMib = {64, 32, 96, 128, 256, 512, 16, 8};
constexpr Bytes kMostWorkspace = 512_MiB;

using SteadyClock = std::chrono::steady_clock;
using PointKey = std::tuple<BatchSize, Algorithm, Bytes>;
// Of runs that write and that add.
using Times = std::map<PointKey, std::array<Nanoseconds, 2>>;

double Seconds(SteadyClock::time_point since) {
  return std::chrono::duration<double>(SteadyClock::now() - since).count();
}

PointKey KeyOf(const MeasuredPoint& point) {
  return {point.batch, point.algorithm, point.workspace};
}
PointKey KeyOf(const MicroBatch& micro) {
  return {micro.batch, micro.algorithm, micro.workspace};
}

// One policy's points for each kernel.
struct Campaign {
  std::string policy;
  std::vector<std::vector<MeasuredPoint>> points;
};

class Policies {
 public:
  Policies(Device& device, std::vector<Kernel> kernels, BatchSize batch)
      : device_(device),
        bench_(device),
        kernels_(std::move(kernels)),
        batch_(batch) {}

  Status Run(double seconds) {
    const auto start = SteadyClock::now();
    fmt::print("device,{}\n\npolicy,limit_mib,measuring_s,on_device_s\n",
               device_.info().id);
    Campaign adaptive{"adaptive", NoPoints()};
    for (const int mib : kLimitsMib) {
      UCUDNN_RETURN_IF_ERROR(Timed(fmt::format("adaptive,{}", mib), [&] {
        return Measure({true, 1_MiB * mib}, batch_, &adaptive);
      }));
    }
    Campaign powers{"powerOfTwo", NoPoints()};
    const auto measure_powers = [&]() -> Status {
      for (std::int64_t b = batch_.count(); b > 0; --b) {
        if (!PolicyAdmits(BatchPolicy::kPowerOfTwo, BatchSize(b), batch_)) {
          continue;
        }
        UCUDNN_RETURN_IF_ERROR(Measure({}, BatchSize(b), &powers));
      }
      return {};
    };
    UCUDNN_RETURN_IF_ERROR(Timed("powerOfTwo,", measure_powers));
    std::vector<Campaign> campaigns = {std::move(adaptive), std::move(powers)};
    UCUDNN_RETURN_IF_ERROR(Compare(campaigns));
    Campaign all{"all", NoPoints()};
    std::vector<std::size_t> finished;
    double longest = 0;
    const auto measure_all = [&]() -> Status {
      for (std::size_t k = 0; k < kernels_.size(); ++k) {
        if (Seconds(start) + longest > seconds) break;
        const auto began = SteadyClock::now();
        for (std::int64_t b = batch_.count(); b > 0; --b) {
          UCUDNN_RETURN_IF_ERROR(MeasureKernel(k, {}, BatchSize(b), &all));
        }
        longest = std::max(longest, Seconds(began));
        finished.push_back(k);
      }
      return {};
    };
    UCUDNN_RETURN_IF_ERROR(Timed("all,", measure_all));
    campaigns.push_back(std::move(all));
    return CompareWithAll(campaigns, finished);
  }

 private:
  std::vector<std::vector<MeasuredPoint>> NoPoints() const {
    return std::vector<std::vector<MeasuredPoint>>(kernels_.size());
  }

  template <class Work>
  Status Timed(const std::string& what, const Work& work) {
    const auto start = SteadyClock::now();
    const Nanoseconds before = bench_.spent();
    UCUDNN_RETURN_IF_ERROR(work());
    fmt::print("{},{:.2f},{:.2f}\n", what, Seconds(start),
               std::chrono::duration<double>(bench_.spent() - before).count());
    std::fflush(stdout);
    return {};
  }

  Status Measure(const TaskGoal& goal, BatchSize batch, Campaign* campaign) {
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      UCUDNN_RETURN_IF_ERROR(MeasureKernel(k, goal, batch, campaign));
    }
    return {};
  }

  Status MeasureKernel(std::size_t k, const TaskGoal& goal, BatchSize batch,
                       Campaign* campaign) {
    std::vector<MeasuredPoint>& points = campaign->points[k];
    const CampaignTask task{kernels_[k].problem, batch, goal,
                            goal.limit.value_or(kMostWorkspace), points};
    auto measured =
        RunCampaign(device_, bench_, task, MeasureOptions(), {}, {}, {});
    // A recorded kernel may lack some batches.
    if (!measured && measured.error().code == Code::kNotFound) return {};
    if (!measured) return tl::unexpected<Error>(std::move(measured).error());
    for (MeasuredPoint& point : *measured) {
      std::erase_if(points, [&](const MeasuredPoint& p) {
        return KeyOf(p) == KeyOf(point);
      });
      points.push_back(std::move(point));
    }
    return {};
  }

  Result<KernelPlan> Plan(const Campaign& campaign, std::size_t k,
                          Bytes limit) const {
    return SolveWr({{}, campaign.points[k]},
                   {batch_, limit, BatchPolicy::kAll});
  }

  // The time of a plan by these times; nullopt if they lack a point.
  static std::optional<Nanoseconds> TimeOf(const KernelPlan& plan,
                                           const Times& times) {
    Nanoseconds total{0};
    for (const MicroBatch& micro : plan.micro_batches) {
      const auto found = times.find(KeyOf(micro));
      if (found == times.end()) return std::nullopt;
      const auto& [writing, adding] = found->second;
      total += adding * micro.count;
      if (&micro == &plan.micro_batches.front()) total += writing - adding;
    }
    return total;
  }

  // Measures the points of the plans in turns, each three times at different
  // moments, and values the plans by the medians.
  Status Compare(const std::vector<Campaign>& campaigns) {
    struct Wanted {
      std::size_t kernel;
      PointKey key;
    };
    std::vector<Wanted> wanted;
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      std::map<PointKey, bool> seen;
      for (const Campaign& campaign : campaigns) {
        for (const int mib : kLimitsMib) {
          UCUDNN_ASSIGN_OR_RETURN(const KernelPlan plan,
                                  Plan(campaign, k, 1_MiB * mib));
          for (const MicroBatch& micro : plan.micro_batches) {
            if (seen.emplace(KeyOf(micro), true).second) {
              wanted.push_back({k, KeyOf(micro)});
            }
          }
        }
      }
    }
    std::vector<std::map<PointKey, std::array<std::vector<Nanoseconds>, 2>>>
        samples(kernels_.size());
    std::mt19937 random(1);
    const auto measure_anew = [&]() -> Status {
      for (int round = 0; round < 3; ++round) {
        std::ranges::shuffle(wanted, random);
        for (const auto& [k, key] : wanted) {
          const auto& [batch, algorithm, workspace] = key;
          UCUDNN_ASSIGN_OR_RETURN(
              const MeasuredPoint point,
              bench_.MeasureAlgorithm(kernels_[k].problem, batch,
                                      {algorithm, workspace}, MeasureOptions(),
                                      {}, {}));
          samples[k][key][0].push_back(point.time);
          samples[k][key][1].push_back(AddingTime(point));
        }
      }
      return {};
    };
    UCUDNN_RETURN_IF_ERROR(Timed("(plans' points anew),", measure_anew));
    std::vector<Times> times(kernels_.size());
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      for (const auto& [key, of_point] : samples[k]) {
        times[k][key] = {MedianAndSpreadOf(of_point[0]).median,
                         MedianAndSpreadOf(of_point[1]).median};
      }
    }
    std::vector<std::size_t> every(kernels_.size());
    for (std::size_t k = 0; k < every.size(); ++k) every[k] = k;
    fmt::print("\nevery kernel, by times taken anew\n");
    Print(campaigns, every, times);
    return {};
  }

  Status CompareWithAll(const std::vector<Campaign>& campaigns,
                        const std::vector<std::size_t>& finished) {
    std::vector<Times> times(kernels_.size());
    fmt::print(
        "\nby the times of `all`, of which these kernels are finished\n");
    for (const std::size_t k : finished) {
      fmt::print("{} {}\n", kernels_[k].layer, Name(kernels_[k].op));
      for (const MeasuredPoint& point : campaigns.back().points[k]) {
        times[k][KeyOf(point)] = {point.time, AddingTime(point)};
      }
    }
    Print(campaigns, finished, times);
    return {};
  }

  // Sums over the kernels. A kernel whose plan has a point without a time is
  // excluded from all policies' sums, and counted.
  void Print(const std::vector<Campaign>& campaigns,
             const std::vector<std::size_t>& kernels,
             const std::vector<Times>& times) const {
    fmt::print("limit_mib");
    for (const Campaign& c : campaigns) fmt::print(",{}_us", c.policy);
    for (std::size_t i = 0; i + 1 < campaigns.size(); ++i) {
      fmt::print(",{}/{}", campaigns[i].policy, campaigns.back().policy);
    }
    fmt::print(",kernels_left_out\n");
    for (const int mib : kLimitsMib) {
      std::vector<double> sums(campaigns.size());
      int left_out = 0;
      for (const std::size_t k : kernels) {
        std::vector<Nanoseconds> of_kernel;
        for (const Campaign& campaign : campaigns) {
          const auto plan = Plan(campaign, k, 1_MiB * mib);
          const auto time = plan ? TimeOf(*plan, times[k]) : std::nullopt;
          if (time) of_kernel.push_back(*time);
        }
        if (of_kernel.size() < campaigns.size()) {
          ++left_out;
          continue;
        }
        for (std::size_t i = 0; i < sums.size(); ++i) {
          sums[i] += static_cast<double>(of_kernel[i].count()) / 1000;
        }
      }
      fmt::print("{}", mib);
      for (const double sum : sums) fmt::print(",{:.1f}", sum);
      for (std::size_t i = 0; i + 1 < sums.size(); ++i) {
        fmt::print(",{:.4f}", sums[i] / sums.back());
      }
      fmt::print(",{}\n", left_out);
    }
    std::fflush(stdout);
  }

  Device& device_;
  MeasureBench bench_;
  std::vector<Kernel> kernels_;
  BatchSize batch_;
};

struct Options {
  double seconds = 200;
  std::int64_t batch = 256;
  std::string replay;
  std::string network = "tests/data/networks/alexnet_torchvision.csv";
};

Status Run(const Options& options) {
  const BatchSize batch(options.batch);
  UCUDNN_ASSIGN_OR_RETURN(Network network,
                          ReadNetworkFile(options.network, batch));
  std::vector<Kernel> kernels =
      KernelsOf(network, Precision::kFp32, Layout::kNchw);
  std::unique_ptr<Device> device;
  if (options.replay.empty()) {
    CudnnOptions cudnn;
    cudnn.ordinals = {0};
    cudnn.graph = false;
    UCUDNN_ASSIGN_OR_RETURN(auto devices, OpenCudnnDevices(cudnn));
    device = std::move(devices.front());
  } else {
    UCUDNN_ASSIGN_OR_RETURN(const Profile profile,
                            ReadProfileFile(options.replay));
    if (profile.kernels.empty()) {
      return Fail(Code::kInvalidArgument, "{} is empty", options.replay);
    }
    network.name = profile.kernels.front().id.network;
    UCUDNN_ASSIGN_OR_RETURN(device, OpenRecordedDevice(profile, network, ""));
    std::erase_if(kernels, [&](const Kernel& kernel) {
      return !device->ListAlgorithms(kernel.problem, batch);
    });
  }
  return Policies(*device, std::move(kernels), batch).Run(options.seconds);
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Compares the batch-size policies on a GPU.");
  app.add_option("--seconds", options.seconds,
                 "Begin no kernel of `all` that may end later than this");
  app.add_option("--batch", options.batch, "The mini-batch")
      ->check(CLI::Range(1, 4096));
  app.add_option("--replay", options.replay, "A profile instead of the GPU");
  app.add_option("--network", options.network, "AlexNet's layers");
  CLI11_PARSE(app, argc, argv);
  const Status status = Run(options);
  if (status) return 0;
  std::fprintf(stderr, "ucudnn_gpu_policies: %s\n",
               status.error().message.c_str());
  return 1;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
