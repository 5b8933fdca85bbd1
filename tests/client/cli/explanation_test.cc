#include "client/cli/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/plan/prediction.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn::ctl {
namespace {

using namespace std::chrono_literals;

MeasuredPoint Point(const char* algorithm, std::int64_t batch, Bytes workspace,
                    Nanoseconds time, Nanoseconds spread = 0ns) {
  MeasuredPoint point;
  point.algorithm.name = algorithm;
  point.batch = BatchSize(batch);
  point.workspace = workspace;
  point.time = time;
  point.spread = spread;
  return point;
}

// Of 4 images: FFT is fastest, and needs the more the more images there are.
const std::vector<MeasuredPoint> kPoints = {
    Point("GEMM", 1, 0_MiB, 6us),  Point("FFT", 2, 32_MiB, 6us),
    Point("GEMM", 2, 0_MiB, 11us), Point("FFT", 4, 64_MiB, 10us),
    Point("GEMM", 4, 0_MiB, 20us),
};

ExplainedKernel Explained(const std::vector<MeasuredPoint>& points,
                          Bytes limit) {
  KernelProfile kernel;
  kernel.id.layer = "conv1";
  kernel.points = points;
  LeaveOutInexact(Precision::kFp32, kDefaultMaxError, &kernel.points);
  const auto planned =
      SolveWr(kernel, {.batch = BatchSize(4), .workspace_limit = limit});
  EXPECT_TRUE(planned) << planned.error().message;
  JobRequest request;
  request.workspace_limit = limit;
  request.policy = BatchPolicy::kAll;
  const auto explained = ExplainKernel(points, BatchSize(4), request,
                                       request.KernelLimit(), *planned);
  EXPECT_TRUE(explained) << explained.error().message;
  return *explained;
}

TEST(ExplanationTest, NamesWhatTheLimitForbidsAndWhatComesNext) {
  const ExplainedKernel kernel = Explained(kPoints, 32_MiB);
  EXPECT_EQ(kernel.division, "2 × 2, FFT");
  EXPECT_EQ(kernel.time, 12us);
  ASSERT_TRUE(kernel.more);
  EXPECT_EQ(kernel.more->limit, 64_MiB);
  EXPECT_EQ(kernel.more->time, 10us);
  EXPECT_EQ(kernel.more->division, "1 × 4, FFT");
  ASSERT_TRUE(kernel.doubled);
  EXPECT_EQ(kernel.doubled->time, 10us);
  ASSERT_TRUE(kernel.fewer);
  EXPECT_EQ(kernel.fewer->limit, 0_MiB);
  ASSERT_TRUE(kernel.runner_up);
  EXPECT_EQ(kernel.runner_up->time, 20us);
  EXPECT_EQ(kernel.runner_up->division, "1 × 4, GEMM");
  EXPECT_FALSE(kernel.scattered);
}

TEST(ExplanationTest, SaysWhenNothingBinds) {
  const ExplainedKernel kernel = Explained(kPoints, 64_MiB);
  EXPECT_EQ(kernel.division, "1 × 4, FFT");
  EXPECT_FALSE(kernel.more);
  EXPECT_FALSE(kernel.doubled);
  ASSERT_TRUE(kernel.runner_up);
  EXPECT_EQ(kernel.runner_up->time, 12us);
}

TEST(ExplanationTest, HasNoRunnerUpWhereNothingElseWasMeasured) {
  const ExplainedKernel kernel =
      Explained({Point("GEMM", 4, 0_MiB, 20us)}, 64_MiB);
  EXPECT_FALSE(kernel.runner_up);
}

TEST(ExplanationTest, NamesTheDivisionThatScatterForbids) {
  std::vector<MeasuredPoint> points = {
      Point("GEMM", 4, 0_MiB, 20us, 3us),
      Point("FFT", 2, 32_MiB, 9us, 3us),
  };
  const ExplainedKernel kernel = Explained(points, 32_MiB);
  EXPECT_EQ(kernel.division, "1 × 4, GEMM");
  ASSERT_TRUE(kernel.scattered);
  EXPECT_EQ(kernel.scattered->division, "2 × 2, FFT");
  EXPECT_EQ(kernel.scattered->time, 18us);
}

TEST(ExplanationTest, NamesWhatIsTooInexactAndWhatItWouldGain) {
  std::vector<MeasuredPoint> points = kPoints;
  for (MeasuredPoint& point : points) {
    point.error_ppt =
        PartsPerTrillion(point.algorithm.name == "FFT" ? 1e-2 : 1e-6);
  }
  const ExplainedKernel kernel = Explained(points, 32_MiB);
  EXPECT_EQ(kernel.division, "1 × 4, GEMM");
  EXPECT_FALSE(kernel.more);
  ASSERT_TRUE(kernel.inexact);
  const Algorithm fft{"FFT", "", Precision::kFp32};
  EXPECT_EQ(kernel.inexact->errors, (std::map<Algorithm, double>{{fft, 1e-2}}));
  ASSERT_TRUE(kernel.inexact->with);
  EXPECT_EQ(kernel.inexact->with->time, 12us);
  EXPECT_EQ(kernel.inexact->with->division, "2 × 2, FFT");
  // Where it would not be faster, it is only named.
  const ExplainedKernel small = Explained(points, 0_MiB);
  ASSERT_TRUE(small.inexact);
  EXPECT_FALSE(small.inexact->with);
  EXPECT_FALSE(Explained(kPoints, 32_MiB).inexact);
}

TEST(ExplanationTest, SaysWhereErrorsMeasuredSinceAdmitNothing) {
  std::vector<MeasuredPoint> points = {Point("GEMM", 4, 0_MiB, 20us)};
  KernelProfile kernel;
  kernel.id.layer = "conv1";
  kernel.points = points;
  const auto planned =
      SolveWr(kernel, {.batch = BatchSize(4), .workspace_limit = 0_MiB});
  points[0].error_ppt = PartsPerTrillion(1e-3);
  JobRequest request;
  request.max_error = 1e-6;
  const auto explained = ExplainKernel(points, BatchSize(4), request,
                                       request.KernelLimit(), *planned);
  ASSERT_FALSE(explained);
  EXPECT_EQ(explained.error().message,
            "conv1 forward: every measured algorithm errs by more than "
            "admitted; max_error 0.001 admits the most accurate");
}

std::map<std::string, Profile> OnKindA() {
  KernelProfile kernel;
  kernel.id.layer = "conv1";
  kernel.points = kPoints;
  return {{"A", {{kernel}}}};
}

JobRequest FourImagesOn(std::vector<std::string> kinds) {
  JobRequest request;
  request.batch = BatchSize(4);
  request.device_kinds = std::move(kinds);
  request.workspace_limit = 32_MiB;
  request.policy = BatchPolicy::kAll;
  return request;
}

TEST(ExplanationTest, SaysWhatOneMoreGpuWouldBring) {
  const std::vector<OneMore> more =
      WithOneMoreGpu(FourImagesOn({"A"}), OnKindA());
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].kind, "A");
  EXPECT_EQ(more[0].time, 6us);
  EXPECT_EQ(more[0].shares, std::vector(2, BatchSize(2)));
}

TEST(ExplanationTest, SaysNothingOfGpusWhereTheSharesWereNotMeasured) {
  JobRequest request = FourImagesOn({"A", "B"});
  EXPECT_THAT(WithOneMoreGpu(request, OnKindA()), ::testing::IsEmpty());
  request.exclude_ranks = {1};
  EXPECT_EQ(WithOneMoreGpu(request, OnKindA()).size(), 1U);
}

TEST(ExplanationTest, TellsTheSegmentsOfKernelsThatMayRunAtOnce) {
  WorkspacePlan plan;
  for (const char* layer : {"stem", "left", "right"}) {
    KernelPlan& kernel = plan.kernels.emplace_back();
    kernel.layer = layer;
    kernel.workspace = 5_B;
    kernel.offset = plan.kernels.size() == 3 ? 256_B : 0_B;
  }
  plan.concurrency = "0 [1 | 2]";
  const auto segments = SegmentsOf(plan);
  ASSERT_EQ(segments.size(), 3U);
  EXPECT_FALSE(segments[0]);
  ASSERT_TRUE(segments[1] && segments[2]);
  EXPECT_EQ(segments[2]->offset, 256_B);
  EXPECT_EQ(segments[2]->size, 5_B);
  EXPECT_EQ(segments[2]->beside, std::vector<std::string>{"left forward"});
  plan.concurrency.clear();
  EXPECT_FALSE(SegmentsOf(plan)[1]);
}

TEST(DivisionTextTest, TellsEqualNeighboursAsOne) {
  const auto fft = [](std::int64_t batch, std::int64_t count) {
    return MicroBatch{.batch = BatchSize(batch),
                      .count = count,
                      .algorithm = {"FFT", "", Precision::kFp32},
                      .workspace = Bytes(0)};
  };
  EXPECT_EQ(DivisionText({fft(32, 1), fft(32, 7), fft(4, 1)}),
            "8 × 32, FFT + 1 × 4, FFT");
}

}  // namespace
}  // namespace ucudnn::ctl
