#ifndef UCUDNN_TESTS_DEVICE_RECORDED_CAMPAIGNS_H_
#define UCUDNN_TESTS_DEVICE_RECORDED_CAMPAIGNS_H_

// AlexNet's conv2 to conv5 on an H200, FP32, batch 256, where every algorithm
// was recorded at every batch: what measuring by each policy would have cost
// there, and how good the plans are that it leads to.

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/network_file.h"
#include "base/plan.h"
#include "device/campaign.h"
#include "device/recorded/recorded_device.h"
#include "solver/wr.h"

namespace ucudnn::test {

class RecordedCampaigns {
 public:
  static constexpr BatchSize kBatch{256};

  RecordedCampaigns() {
    const std::string data = UCUDNN_TEST_DATA;
    Network network = Value(
        ReadNetworkFile(data + "/networks/alexnet_torchvision.csv", kBatch));
    network.name = "alexnet";
    profile_ = Value(
        ReadProfileFile(data + "/h200/alexnet_conv2-5_b256_all_fp32.csv.gz"));
    device_ = Value(OpenRecordedDevice(profile_, network, ""));
    bench_ = std::make_unique<MeasureBench>(*device_);
    for (const Kernel& kernel :
         KernelsOf(network, Precision::kFp32, Layout::kNchw)) {
      if (kernel.layer != "conv1") kernels_.push_back(kernel.problem);
    }
  }

  // What one policy has measured so far.
  struct Measured {
    std::vector<std::vector<MeasuredPoint>> points;  // of each kernel
    Nanoseconds spent{0};                            // on the device
  };

  // Measures for plans under `limits`, each with a task of its own that knows
  // what the ones before it found; none: every limit at once, up to 1 GiB.
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

  // The time of the convolutions as planned.
  Nanoseconds PlanTime(const Measured& measured, Bytes limit) const {
    Profile profile;
    for (const auto& points : measured.points) {
      profile.kernels.push_back({{}, points});
    }
    return TimeOf(profile, limit);
  }
  Nanoseconds BestTime(Bytes limit) const { return TimeOf(profile_, limit); }

 private:
  template <class T>
  static T Value(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return *std::move(result);
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

  Profile profile_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<MeasureBench> bench_;
  std::vector<ConvProblem> kernels_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_DEVICE_RECORDED_CAMPAIGNS_H_
