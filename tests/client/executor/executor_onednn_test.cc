// Compares the executor's results on a real device with a convolution in
// double.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/network.h"
#include "client/executor/executor.h"
#include "client/executor/undivided.h"
#include "device/onednn/onednn_device.h"
#include "tests/support/reference_conv.h"

namespace ucudnn {
namespace {

using ::testing::IsEmpty;

constexpr float kAlpha = 0.75F;

class ExecutorOneDnnTest : public ::testing::Test {
 protected:
  ExecutorOneDnnTest() {
    auto device = OpenOneDnnDevice({.threads = 1});
    UCUDNN_CHECK(device.has_value());
    device_ = *std::move(device);
  }

  DeviceBuffer OnDevice(const std::vector<double>& values) {
    const auto bytes = test::Encode(values, Precision::kFp32);
    const Bytes size(static_cast<std::int64_t>(bytes.size()));
    DeviceBuffer buffer = device_->Allocate(size).value();
    EXPECT_TRUE(device_->Upload(buffer.data(), bytes.data(), size));
    return buffer;
  }

  // Runs `kernel` as planned and compares it with alpha op(a, b) + beta out.
  void ExpectExact(const KernelPlan& kernel, BatchSize batch, float beta) {
    const ConvProblem& problem = *kernel.problem;
    SCOPED_TRACE(fmt::format("{} in {} micro-batch sizes, first {} by {}",
                             ToString(problem), kernel.micro_batches.size(),
                             kernel.micro_batches[0].batch.count(),
                             kernel.micro_batches[0].algorithm.name));
    WorkspacePlan plan;
    plan.batch = batch;
    plan.workspace_limit = 1_GiB;
    plan.kernels = {kernel};
    auto executor = Executor::Create(*device_, plan);
    ASSERT_TRUE(executor) << executor.error().message;
    const auto sizes = test::SizesOf(problem, batch);
    const auto a = test::ExactValues(sizes.a, 1);
    const auto b = test::ExactValues(sizes.b, 2);
    const auto old = test::ExactValues(sizes.out, 3);
    const DeviceBuffer da = OnDevice(a);
    const DeviceBuffer db = OnDevice(b);
    const DeviceBuffer dout = OnDevice(
        beta == 0 ? std::vector<double>(old.size(), std::nan("")) : old);
    ASSERT_TRUE((*executor)->Run(0, {.a = da.data(),
                                     .b = db.data(),
                                     .out = dout.data(),
                                     .alpha = kAlpha,
                                     .beta = beta}));
    ASSERT_TRUE(device_->Synchronize());
    EXPECT_THAT((*executor)->fallbacks(), IsEmpty());
    std::vector<unsigned char> bytes(
        static_cast<std::size_t>(dout.size().count()));
    ASSERT_TRUE(device_->Download(bytes.data(), dout.data(), dout.size()));
    const auto out = test::Decode(bytes, Precision::kFp32);
    const auto reference = test::ReferenceConv(problem, batch, a, b);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double expected =
          kAlpha * reference.out[i] + (beta == 0 ? 0.0 : double{beta} * old[i]);
      ASSERT_NEAR(out[i], expected, 1e-4 * (reference.scale + 1)) << i;
    }
  }

  // A kernel that divides the batch into these sizes, each by the `nth`
  // algorithm listed for it.
  KernelPlan Divide(const ConvProblem& problem,
                    const std::vector<std::int64_t>& sizes, std::size_t nth) {
    KernelPlan kernel;
    kernel.layer = "layer";
    kernel.op = problem.op;
    kernel.problem = problem;
    for (const std::int64_t size : sizes) {
      const auto candidates =
          device_->ListAlgorithms(problem, BatchSize(size)).value();
      const Candidate& c = candidates[nth++ % candidates.size()];
      kernel.micro_batches.push_back(
          {BatchSize(size), 1, c.algorithm, Nanoseconds(0), c.workspace});
      kernel.workspace = std::max(kernel.workspace, c.workspace);
    }
    return kernel;
  }

  std::unique_ptr<Device> device_;
};

ConvGeometry Winograd() {
  ConvGeometry g;
  g.channels = 16;
  g.filters = 16;
  g.input = {1, 9, 8};
  g.filter = {1, 3, 3};
  g.padding = {0, 1, 1};
  return g;
}

ConvGeometry Strided() {
  ConvGeometry g;
  g.channels = 4;
  g.filters = 6;
  g.groups = 2;
  g.input = {1, 11, 9};
  g.filter = {1, 3, 2};
  g.padding = {0, 1, 0};
  g.stride = {1, 2, 3};
  g.dilation = {1, 2, 1};
  return g;
}

ConvGeometry Deep() {
  ConvGeometry g;
  g.spatial_dims = 3;
  g.channels = 3;
  g.filters = 5;
  g.input = {4, 5, 6};
  g.filter = {2, 3, 3};
  g.padding = {1, 1, 1};
  return g;
}

TEST_F(ExecutorOneDnnTest, GivesTheWholeBatchsResultFromUnevenMicroBatches) {
  for (const ConvGeometry& geometry : {Winograd(), Strided(), Deep()}) {
    for (const Layout layout : kLayouts) {
      for (const ConvOp op : kConvOps) {
        const ConvProblem problem{op, geometry, Precision::kFp32, layout};
        for (std::size_t nth = 0; nth < 4; ++nth) {
          ExpectExact(Divide(problem, {4, 2, 1}, nth), BatchSize(7),
                      nth % 2 == 0 ? 0.0F : -1.5F);
        }
      }
    }
  }
}

TEST_F(ExecutorOneDnnTest, RunsTransposedLayersAsTheAdjoint) {
  Network network;
  network.layers.resize(1);
  network.layers[0].name = "up";
  network.layers[0].geometry = Strided();
  network.layers[0].transposed = true;
  const auto kernels = KernelsOf(network, Precision::kFp32, Layout::kNchw);
  ASSERT_EQ(kernels[0].op, ConvOp::kForward);
  ASSERT_EQ(kernels[0].problem.op, ConvOp::kBackwardData);
  for (const Kernel& kernel : kernels) {
    KernelPlan planned = Divide(kernel.problem, {3, 2}, 0);
    planned.op = kernel.op;
    ExpectExact(planned, BatchSize(5), 0.5F);
  }
}

TEST_F(ExecutorOneDnnTest, FallsBackToACorrectResult) {
  const ConvProblem problem{ConvOp::kBackwardFilter, Winograd(),
                            Precision::kFp32, Layout::kNchw};
  KernelPlan kernel = Divide(problem, {4, 3}, 0);
  kernel.micro_batches[1].algorithm.name = "no such algorithm";
  WorkspacePlan plan;
  plan.batch = BatchSize(7);
  plan.workspace_limit = 1_GiB;
  plan.kernels = {kernel};
  auto executor = Executor::Create(*device_, plan);
  ASSERT_TRUE(executor) << executor.error().message;
  ASSERT_EQ((*executor)->fallbacks().size(), 1U);
  ExpectExact((*executor)->kernel(0), BatchSize(7), 2.0F);
}

TEST_F(ExecutorOneDnnTest, RunsTheUndividedPlan) {
  Network network;
  network.layers.resize(1);
  network.layers[0].name = "conv";
  network.layers[0].geometry = Winograd();
  const auto plan = UndividedPlan(
      *device_, KernelsOf(network, Precision::kFp32, Layout::kNhwc),
      BatchSize(5), 64_MiB);
  ASSERT_TRUE(plan) << plan.error().message;
  for (const KernelPlan& kernel : plan->kernels) {
    ExpectExact(kernel, BatchSize(5), 1.0F);
  }
}

}  // namespace
}  // namespace ucudnn
