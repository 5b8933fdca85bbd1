#ifndef UCUDNN_TESTS_DEVICE_MEASURE_RECORDED_CAMPAIGNS_H_
#define UCUDNN_TESTS_DEVICE_MEASURE_RECORDED_CAMPAIGNS_H_

// AlexNet's conv2 to conv5 on an H200, FP32, batch 256, where every algorithm
// was recorded at every batch: the cost of measuring by each policy there, and
// the quality of the resulting plans.

#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/onnx/network_file.h"
#include "base/plan/plan.h"
#include "device/measure/campaign.h"
#include "solver/micro_batch/wr.h"
#include "tests/support/paths.h"
#include "tests/support/recorded_device.h"

namespace ucudnn::test {

template <class T>
T Value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

struct RecordedNetwork {
  Network network;
  Profile profile;
};

// Read once, which takes a second under sanitizers.
inline const RecordedNetwork& AlexNetOnH200() {
  static const RecordedNetwork recorded = [] {
    RecordedNetwork read = {
        Value(ReadNetworkFile(DataPath("networks/alexnet_torchvision.csv"),
                              BatchSize(256))),
        Value(ReadProfileFile(
            DataPath("h200/alexnet_conv2-5_b256_all_fp32.csv.gz")))};
    read.network.name = "alexnet";
    return read;
  }();
  return recorded;
}

// How much a device's times vary between measurements.
struct Noise {
  double part = 0;          // standard deviation, relative to the time
  double outliers = 0;      // this fraction of the runs ...
  double outlier_time = 1;  // ... takes this many times as long
  // The time to load code in an algorithm's first run at about a given batch.
  Nanoseconds load{0};
  unsigned seed = 1;
};

// A recorded device with noise in its times.
class NoisyDevice final : public Device {
 public:
  NoisyDevice(std::unique_ptr<Device> recorded, const Noise& noise)
      : recorded_(std::move(recorded)), noise_(noise), random_(noise.seed) {}
  const DeviceInfo& info() const override { return recorded_->info(); }
  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem& problem,
                                                BatchSize batch) override {
    return recorded_->ListAlgorithms(problem, batch);
  }
  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) override {
    const auto octave = std::bit_width(std::uint64_t(batch.count()));
    if (loaded_.emplace(problem, algorithm, octave).second) {
      loading_ = noise_.load;
    }
    return recorded_->Prepare(problem, batch, algorithm);
  }
  // Nothing is computed, so no memory is needed.
  Result<DeviceBuffer> Allocate(Bytes size) override {
    return DeviceBuffer(this, size, [](void*) {});
  }
  Status Upload(void*, const void*, Bytes) override { return {}; }
  Status Download(void*, const void*, Bytes) override { return {}; }
  Status Fill(void*, unsigned char, Bytes) override { return {}; }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    const Result<Nanoseconds> time = recorded_->Time(work);
    if (!time) return time;
    double factor =
        std::exp(std::normal_distribution<>(0, noise_.part)(random_));
    if (std::bernoulli_distribution(noise_.outliers)(random_)) {
      factor *= noise_.outlier_time;
    }
    return std::exchange(loading_, Nanoseconds(0)) +
           Nanoseconds(
               std::llround(static_cast<double>(time->count()) * factor));
  }
  Status Synchronize() override { return {}; }

 private:
  std::unique_ptr<Device> recorded_;
  Noise noise_;
  std::mt19937 random_;
  std::set<std::tuple<ConvProblem, Algorithm, int>> loaded_;
  Nanoseconds loading_{0};
};

class RecordedCampaigns {
 public:
  static constexpr BatchSize kBatch{256};

  explicit RecordedCampaigns(const Noise& noise = {}) {
    const Network& network = AlexNetOnH200().network;
    device_ = std::make_unique<NoisyDevice>(
        Value(OpenRecordedDevice(profile_, network, "")), noise);
    bench_ = std::make_unique<MeasureBench>(*device_);
    for (const Kernel& kernel :
         KernelsOf(network, Precision::kFp32, Layout::kNchw)) {
      if (kernel.layer == "conv1") continue;
      kernels_.push_back(kernel.problem);
      auto& times = times_.emplace_back();
      for (const KernelProfile& recorded : profile_.kernels) {
        if (recorded.id.layer != kernel.layer || recorded.id.op != kernel.op) {
          continue;
        }
        for (const MeasuredPoint& point : recorded.points) {
          times.emplace(std::tuple(point.batch, point.algorithm), point.time);
        }
      }
    }
  }

  // The measurements of one policy so far.
  struct Measured {
    std::vector<std::vector<MeasuredPoint>> points;  // of each kernel
    Nanoseconds spent{0};                            // on the device
  };

  // Measures for plans under `limits`, with one task for each, which knows the
  // points of the earlier ones; none: every limit at once, up to 1 GiB.
  void Adaptive(const std::vector<Bytes>& limits, Measured* measured) {
    if (limits.empty()) {
      Measure({true, {}}, kBatch, measured);
    }
    for (const Bytes limit : limits) {
      Measure({true, limit}, kBatch, measured);
    }
  }
  // Measures every algorithm at each batch that the policy admits.
  void Each(BatchPolicy policy, Measured* measured) {
    for (std::int64_t b = 1; b <= kBatch.count(); ++b) {
      if (PolicyAdmits(policy, BatchSize(b), kBatch)) {
        Measure({}, BatchSize(b), measured);
      }
    }
  }

  // The true time of the convolutions under a plan made from the noisy
  // measurements.
  Nanoseconds PlanTime(const Measured& measured, Bytes limit) const {
    Profile profile;
    for (const auto& points : measured.points) {
      profile.kernels.emplace_back().points = points;
    }
    const WorkspacePlan plan =
        Value(SolveWr(profile, {kBatch, limit, BatchPolicy::kAll}));
    Nanoseconds total{0};
    for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
      for (const MicroBatch& micro : plan.kernels[k].micro_batches) {
        total += TrueTime(k, micro) * micro.count;
      }
    }
    return total;
  }
  Nanoseconds BestTime(Bytes limit) const { return TimeOf(profile_, limit); }

 private:
  Nanoseconds TrueTime(std::size_t kernel, const MicroBatch& micro) const {
    const auto key = std::tuple(micro.batch, micro.algorithm);
    return times_.at(kernel).at(key);
  }

  static Nanoseconds TimeOf(const Profile& profile, Bytes limit) {
    return Value(SolveWr(profile, {kBatch, limit, BatchPolicy::kAll}))
        .total_time;
  }

  void Measure(const TaskGoal& goal, BatchSize batch, Measured* measured) {
    const Nanoseconds before = bench_->spent();
    measured->points.resize(kernels_.size());
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      std::vector<MeasuredPoint>& points = measured->points[k];
      const CampaignTask task{kernels_[k], batch, goal,
                              goal.limit.value_or(1_GiB), points};
      for (const MeasuredPoint& point : Value(RunCampaign(
               *device_, *bench_, task, MeasureOptions(), {}, {}, {}))) {
        std::erase_if(points, [&](const MeasuredPoint& p) {
          return p.batch == point.batch && p.algorithm == point.algorithm;
        });
        points.push_back(point);
      }
    }
    measured->spent += bench_->spent() - before;
  }

  const Profile& profile_ = AlexNetOnH200().profile;
  std::unique_ptr<Device> device_;
  std::unique_ptr<MeasureBench> bench_;
  std::vector<ConvProblem> kernels_;
  // Of each kernel, as recorded.
  std::vector<std::map<std::tuple<BatchSize, Algorithm>, Nanoseconds>> times_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_DEVICE_MEASURE_RECORDED_CAMPAIGNS_H_
