#ifndef UCUDNN_TESTS_DEVICE_MEASURE_MEASURING_H_
#define UCUDNN_TESTS_DEVICE_MEASURE_MEASURING_H_

// What tests of measuring share: a problem, a recorded device, one whose runs a
// test disturbs, and what was reported of each algorithm.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/forwarding_device.h"
#include "device/measure/measure.h"
#include "tests/support/recorded_device.h"
#include "tests/support/recorded_profile.h"

namespace ucudnn::test {

inline constexpr BatchSize kBatch(64);

inline std::unique_ptr<Device> Recorded(std::vector<MeasuredPoint> points,
                                        ConvOp op = ConvOp::kForward) {
  const Profile profile = {{KernelOf("first", op, std::move(points))}};
  auto device = OpenRecordedDevice(profile, SmallNetwork(), "");
  EXPECT_TRUE(device) << device.error().message;
  return *std::move(device);
}

inline ConvProblem First(ConvOp op = ConvOp::kForward) {
  return {op, SmallGeometry(), Precision::kFp32, Layout::kNchw};
}

// The error code that was reported for each algorithm.
struct Report {
  std::map<std::string, Code> codes;
  MeasureProgress Record() {
    return [this](const Candidate& candidate,
                  const Result<MeasuredPoint>& point) {
      codes[candidate.algorithm.name] = point ? Code::kOk : point.error().code;
    };
  }
};

inline std::vector<std::string> Names(
    const std::vector<MeasuredPoint>& points) {
  std::vector<std::string> names;
  for (const MeasuredPoint& p : points) names.push_back(p.algorithm.name);
  return names;
}

// Forwards everything to a recorded device, except that a test may give each
// run an error or a factor to its time.
class Disturbed : public ForwardingDevice {
 public:
  using Disturbance = std::function<Result<double>(int run)>;
  Disturbed(std::unique_ptr<Device> device, Disturbance disturbance)
      : ForwardingDevice(*device),
        recorded_(std::move(device)),
        disturbance_(std::move(disturbance)) {}

  Result<DeviceBuffer> Allocate(Bytes size) override {
    allocated.push_back(size);
    return ForwardingDevice::Allocate(size);
  }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    UCUDNN_ASSIGN_OR_RETURN(const double factor, disturbance_(runs++));
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, device_.Time(work));
    return pause + Nanoseconds(static_cast<std::int64_t>(
                       static_cast<double>(time.count()) * factor));
  }
  Result<EnqueuedTime> TimeEnqueued(
      const std::function<Status()>& work) override {
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time,
                            slow_host ? device_.Time(work) : Time(work));
    return EnqueuedTime{time, slow_host ? pause : Nanoseconds(0)};
  }
  Status Synchronize() override {
    return broken ? Status(Fail(Code::kDataLoss, "the device fell away"))
                  : Status();
  }

  int runs = 0;
  Nanoseconds pause{0};    // before the first run of each timing
  bool slow_host = false;  // the pause is the host's
  bool broken = false;
  std::vector<Bytes> allocated;

 private:
  std::unique_ptr<Device> recorded_;
  Disturbance disturbance_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_DEVICE_MEASURE_MEASURING_H_
