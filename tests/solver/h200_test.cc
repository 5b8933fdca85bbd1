// The solvers on measurements of an NVIDIA H200, compared with an enumeration
// of all divisions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/profile.h"
#include "solver/arena/concurrency.h"
#include "solver/arena/ws.h"
#include "solver/check/validate.h"
#include "solver/knapsack/wd.h"
#include "solver/micro_batch/pareto.h"
#include "solver/micro_batch/wr.h"
#include "tests/solver/micro_batch/naive_pareto.h"
#include "tests/support/paths.h"
#include "tests/support/powers_of_two.h"

namespace ucudnn {
namespace {

using ::testing::DoubleNear;

Profile Read(const std::string& file, const std::string& precision) {
  ProfileFilter filter;
  filter.precision = precision;
  return SelectKernels(ReadProfileFile(test::DataPath("h200/") + file).value(),
                       filter)
      .value();
}

std::int64_t BestPowersOfTwo(const KernelProfile& kernel, Bytes limit) {
  test::PowersOfTwo divisions(256);
  for (const MeasuredPoint& point : kernel.points) {
    if (point.workspace > limit) continue;
    divisions.Add(point.batch.count(), point.time.count());
  }
  return divisions.TryAll(256);
}

TEST(H200Test, WorkspaceReuseEqualsEveryDivisionIntoPowersOfTwo) {
  for (const char* precision : {"FP32", "TF32", "PSEUDO_HALF"}) {
    const Profile profile = Read("alexnet_b256_pow2.csv", precision);
    const WrRequest request{BatchSize(256), 64_MiB, BatchPolicy::kPowerOfTwo};
    const WorkspacePlan plan = SolveWr(profile, request).value();
    const Status valid = ValidatePlan(
        plan, profile, {WorkspaceMode::kReuse, request.policy, {}});
    ASSERT_TRUE(valid) << valid.error().message;
    ASSERT_EQ(plan.kernels.size(), 15U);
    for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
      EXPECT_EQ(plan.kernels[k].time.count(),
                BestPowersOfTwo(profile.kernels[k], 64_MiB))
          << precision << " " << plan.kernels[k].layer;
    }
    EXPECT_TRUE(plan.optimal);
  }
}

// Known results for these measurements, in milliseconds. TF32 may use FP32
// algorithms, which makes one kernel faster than TF32 alone (37.7).
TEST(H200Test, DividingAlexNetGainsTheKnownTimes) {
  struct Row {
    const char* precision;
    double undivided;
    double divided;
  };
  for (const auto& [precision, undivided, divided] :
       {Row{"FP32", 37.5, 20.5}, Row{"TF32", 37.5, 13.1},
        Row{"PSEUDO_HALF", 25.6, 8.8}}) {
    const WorkspacePlan plan =
        SolveWr(Read("alexnet_b256_pow2.csv", precision),
                {BatchSize(256), 64_MiB, BatchPolicy::kPowerOfTwo})
            .value();
    EXPECT_THAT(Microseconds(*plan.undivided_time) / 1e3,
                DoubleNear(undivided, 0.06));
    EXPECT_THAT(Microseconds(plan.total_time) / 1e3, DoubleNear(divided, 0.06));
  }
}

TEST(H200Test, FrontsEqualThoseOfThePapersRecurrence) {
  for (const KernelProfile& kernel :
       Read("alexnet_b256_pow2.csv", "FP32").kernels) {
    for (const BatchPolicy policy :
         {BatchPolicy::kPowerOfTwo, BatchPolicy::kUndivided}) {
      const WrRequest request{BatchSize(256), 512_MiB, policy};
      EXPECT_EQ(SolvePareto(kernel.points, request).value().points(),
                test::NaiveFront(kernel.points, request));
    }
  }
  // Every size for which the recurrence takes a reasonable time.
  for (const KernelProfile& kernel :
       Read("alexnet_conv2-5_b256_all_fp32.csv.gz", "FP32").kernels) {
    const WrRequest request{BatchSize(48), 512_MiB, BatchPolicy::kAll};
    EXPECT_EQ(SolvePareto(kernel.points, request).value().points(),
              test::NaiveFront(kernel.points, request));
  }
}

TEST(H200Test, EveryPointOfAFullFrontIsThePlanUnderItsWorkspace) {
  const Profile profile = Read("alexnet_conv2-5_b256_all_fp32.csv.gz", "FP32");
  ASSERT_EQ(profile.kernels.size(), 12U);
  for (const KernelProfile& kernel : profile.kernels) {
    const ParetoFront front =
        SolvePareto(kernel.points, {BatchSize(256), 512_MiB}).value();
    for (std::size_t i = 0; i < front.points().size(); i += 7) {
      const KernelPlan plan =
          SolveWr(kernel, {BatchSize(256), front.points()[i].workspace})
              .value();
      EXPECT_EQ(plan.time, front.points()[i].time);
      EXPECT_EQ(plan.workspace, front.points()[i].workspace);
    }
  }
}

// VGG-16 at batch 64, a chain: an arena that its kernels share, compared with
// one divided among them. Milliseconds as printed by `ucudnn solve`.
TEST(H200Test, SharingAnArenaBeatsDividingALargerOneOnVgg16) {
  const Profile profile = Read("vgg16_b64_pow2.csv.gz", "FP32");
  ASSERT_EQ(profile.kernels.size(), 38U);
  const auto request = [](Bytes limit) {
    return WrRequest{BatchSize(64), limit, BatchPolicy::kPowerOfTwo};
  };
  const auto shared = [&](Bytes limit) {
    return SolveWs(profile, Chain(profile.kernels.size()), request(limit))
        .value();
  };
  const WorkspacePlan divided = SolveWd(profile, request(264_MiB)).value();
  const WorkspacePlan small = shared(64_MiB);
  const WorkspacePlan large = shared(512_MiB);
  for (const WorkspacePlan* plan : {&divided, &small, &large}) {
    EXPECT_TRUE(plan->optimal);
  }
  const auto ms = [](Nanoseconds time) { return Microseconds(time) / 1e3; };
  EXPECT_THAT(ms(*small.undivided_time), DoubleNear(198.7, 0.06));
  EXPECT_THAT(ms(divided.total_time), DoubleNear(166.8, 0.06));
  EXPECT_THAT(ms(small.total_time), DoubleNear(145.3, 0.06));
  EXPECT_THAT(ms(large.total_time), DoubleNear(62.4, 0.06));
}

}  // namespace
}  // namespace ucudnn
