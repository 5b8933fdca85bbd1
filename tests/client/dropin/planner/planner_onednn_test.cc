// The planner on a real device: plans compute correct results.

#include <gtest/gtest.h>

#include "client/dropin/planner/planner.h"
#include "device/micro_batches.h"
#include "device/onednn/onednn_device.h"
#include "tests/support/process.h"
#include "tests/support/reference_conv.h"

namespace ucudnn {
namespace {

class LocalOneDnnTest : public ::testing::Test {
 protected:
  LocalOneDnnTest() {
    auto device = OpenOneDnnDevice({.threads = 1});
    UCUDNN_CHECK(device.has_value());
    device_ = *std::move(device);
  }

  LocalSolver::Bench Bench() {
    return [this]() -> Result<Device*> { return device_.get(); };
  }

  DeviceBuffer OnDevice(const std::vector<double>& values) {
    const auto bytes = test::Encode(values, Precision::kFp32);
    const Bytes size(static_cast<std::int64_t>(bytes.size()));
    DeviceBuffer buffer = device_->Allocate(size).value();
    EXPECT_TRUE(device_->Upload(buffer.data(), bytes.data(), size));
    return buffer;
  }

  std::unique_ptr<Device> device_;
};

TEST_F(LocalOneDnnTest, PlansComputeWhatTheWholeBatchDoes) {
  const test::TemporaryFolder folder;
  LocalSolver::Options options;
  options.settings.cache_dir = folder.path();
  options.kind = ToString(device_->info().kind);
  LocalSolver planner(options);
  const BatchSize batch(5);
  for (const ConvOp op : kConvOps) {
    for (const Bytes limit : {64_MiB, 0_B}) {
      const ConvProblem problem = test::GroupedProblem(op);
      const auto plan = planner.Plan(problem, batch, limit, Bench());
      if (!plan) {  // some need a little workspace for every algorithm
        EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
        continue;
      }
      std::vector<std::unique_ptr<Convolution>> convolutions;
      std::vector<MicroBatchStep> steps;
      for (const MicroBatch& micro : plan->micro_batches) {
        convolutions.push_back(
            device_->Prepare(problem, micro.batch, micro.algorithm).value());
        steps.push_back(
            {convolutions.back().get(), micro.batch.count(), micro.count});
      }
      const auto sizes = test::SizesOf(problem, batch);
      const auto a = test::ExactValues(sizes.a, 1);
      const auto b = test::ExactValues(sizes.b, 2);
      const auto old = test::ExactValues(sizes.out, 3);
      const DeviceBuffer da = OnDevice(a);
      const DeviceBuffer db = OnDevice(b);
      const DeviceBuffer out = OnDevice(old);
      const DeviceBuffer workspace = device_->Allocate(plan->workspace).value();
      MicroBatchProgress progress;
      ASSERT_TRUE(RunSteps(steps, PackedStrides(problem),
                           {da.data(), db.data(), out.data(), 0.5F, -2.0F},
                           workspace.data(), workspace.size(), &progress));
      EXPECT_EQ(progress.images, 5);
      std::vector<unsigned char> bytes(
          static_cast<std::size_t>(out.size().count()));
      ASSERT_TRUE(device_->Download(bytes.data(), out.data(), out.size()));
      const auto got = test::Decode(bytes, Precision::kFp32);
      const auto reference = test::ReferenceConv(problem, batch, a, b);
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], 0.5 * reference.out[i] - 2.0 * old[i],
                    1e-4 * (reference.scale + 1));
      }
    }
  }
}

}  // namespace
}  // namespace ucudnn
