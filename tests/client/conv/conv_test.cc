// ucudnn/conv.h on the CPU: results against a convolution in double, and what
// is refused.

#include "ucudnn/conv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/conv_problem.h"
#include "tests/support/process.h"
#include "tests/support/reference_conv.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kInvalidArgument = 3;
constexpr int kUnimplemented = 12;
constexpr std::int64_t kImages = 6;
constexpr std::int64_t kLimit = 64 << 20;

struct Close {
  void operator()(ucudnn_conv_device* device) const {
    ucudnn_conv_close(device);
  }
  void operator()(ucudnn_conv* conv) const { ucudnn_conv_free(conv); }
};
using Device = std::unique_ptr<ucudnn_conv_device, Close>;
using Conv = std::unique_ptr<ucudnn_conv, Close>;

std::string Text(const std::string& op, const std::string& tail = "") {
  return op + "-c4-h7w5-k6-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW" + tail;
}

class ConvTest : public ::testing::Test {
 protected:
  ConvTest() {
    setenv("UCUDNN_CACHE_DIR", folder_.path().c_str(), 1);
    ucudnn_conv_device* opened = nullptr;
    EXPECT_EQ(ucudnn_conv_open_cpu(1, &opened), 0) << ucudnn_conv_last_error();
    device_.reset(opened);
  }

  Conv Plan(const std::string& problem, std::int64_t limit = kLimit) {
    ucudnn_conv* conv = nullptr;
    EXPECT_EQ(
        ucudnn_conv_plan(device_.get(), problem.c_str(), kImages, limit, &conv),
        0)
        << ucudnn_conv_last_error();
    return Conv(conv);
  }

  test::TemporaryFolder folder_;
  Device device_;
};

std::vector<float> Floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// The largest error of `conv` on `problem` with alpha 0.75, relative to the
// largest sum.
double ErrorOf(ucudnn_conv* conv, const ConvProblem& problem, float beta) {
  const auto sizes = test::SizesOf(problem, BatchSize(kImages));
  const auto a = test::ExactValues(sizes.a, 1);
  const auto b = test::ExactValues(sizes.b, 2);
  const auto reference = test::ReferenceConv(problem, BatchSize(kImages), a, b);
  const auto fa = Floats(a);
  const auto fb = Floats(b);
  std::vector<float> out(static_cast<std::size_t>(sizes.out),
                         beta == 0 ? std::nanf("") : 2.0F);
  const auto size = ucudnn_conv_workspace(conv);
  void* const workspace =
      std::aligned_alloc(64, static_cast<std::size_t>((size + 64) / 64 * 64));
  EXPECT_EQ(ucudnn_conv_run(conv, nullptr, fa.data(), fb.data(), out.data(),
                            0.75F, beta, workspace, size),
            0)
      << ucudnn_conv_last_error();
  std::free(workspace);
  double largest = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double expected = 0.75 * reference.out[i] + 2.0 * double{beta};
    const double error = std::abs(double{out[i]} - expected);
    if (!(error <= largest)) largest = error;
  }
  return largest / reference.scale;
}

TEST_F(ConvTest, PlansFilterGradientsWithoutWorkspace) {
  const std::string problem =
      "backward_filter-c8-h8w8-k8-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW";
  ucudnn_conv* conv = nullptr;
  ASSERT_EQ(ucudnn_conv_plan(device_.get(), problem.c_str(), kImages, 1, &conv),
            0)
      << ucudnn_conv_last_error();
  EXPECT_LE(ucudnn_conv_workspace(conv), 1);
  ucudnn_conv_free(conv);
}

TEST_F(ConvTest, ComputesEachOperationWithAlphaAndBeta) {
  for (const char* op : {"forward", "backward_data", "backward_filter"}) {
    for (const std::string& text :
         {Text(op), Text(op).replace(Text(op).size() - 4, 4, "NHWC")}) {
      const Conv conv = Plan(text);
      const ConvProblem problem = ParseConvProblem(text).value();
      for (const float beta : {0.0F, 0.5F}) {
        EXPECT_LT(ErrorOf(conv.get(), problem, beta), 1e-5) << text;
      }
      EXPECT_GT(ucudnn_conv_time_us(conv.get()), 0);
      EXPECT_GE(ucudnn_conv_undivided_us(conv.get()),
                ucudnn_conv_time_us(conv.get()));
      EXPECT_THAT(ucudnn_conv_text(conv.get()), HasSubstr(" × "));
      EXPECT_LE(ucudnn_conv_workspace(conv.get()), kLimit);
    }
  }
}

TEST_F(ConvTest, DividesATotalAmongAllProblems) {
  const std::string texts[] = {Text("forward"), Text("backward_filter")};
  const char* const problems[] = {texts[0].c_str(), texts[1].c_str()};
  const std::int64_t batches[] = {kImages, kImages};
  ucudnn_conv* convs[2] = {};
  constexpr std::int64_t kTotal = 1 << 20;
  ASSERT_EQ(
      ucudnn_conv_divide(device_.get(), problems, batches, 2, kTotal, convs), 0)
      << ucudnn_conv_last_error();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const Conv conv(convs[i]);
    sum += ucudnn_conv_workspace(conv.get());
    EXPECT_LT(ErrorOf(conv.get(), ParseConvProblem(texts[i]).value(), 0), 1e-5);
  }
  EXPECT_LE(sum, kTotal);
}

TEST_F(ConvTest, OutlivesTheHandleOfItsDevice) {
  const Conv conv = Plan(Text("forward"));
  device_.reset();
  EXPECT_LT(ErrorOf(conv.get(), ParseConvProblem(Text("forward")).value(), 0),
            1e-5);
}

TEST_F(ConvTest, ServesThreadsAtOnce) {
  const Conv forward = Plan(Text("forward"));
  const Conv filter = Plan(Text("backward_filter"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ucudnn_conv* const conv = t % 2 == 0 ? forward.get() : filter.get();
      const auto problem =
          ParseConvProblem(Text(t % 2 == 0 ? "forward" : "backward_filter"));
      for (int i = 0; i < 10; ++i) EXPECT_LT(ErrorOf(conv, *problem, 0), 1e-5);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ConvTest, KeepsMeasurementsForTheNextProcess) {
  EXPECT_NE(Plan(Text("forward")), nullptr);
  EXPECT_FALSE(std::filesystem::is_empty(folder_ / "conv"));
}

TEST_F(ConvTest, RefusesMalformedArguments) {
  ucudnn_conv* conv = nullptr;
  const auto refused = [&](const char* problem, std::int64_t batch,
                           std::int64_t limit) -> std::string {
    conv = reinterpret_cast<ucudnn_conv*>(this);
    EXPECT_EQ(ucudnn_conv_plan(device_.get(), problem, batch, limit, &conv),
              kInvalidArgument);
    EXPECT_EQ(conv, nullptr);
    return ucudnn_conv_last_error();
  };
  EXPECT_THAT(refused("forward-c3", 4, 0), HasSubstr("problem"));
  EXPECT_THAT(refused(nullptr, 4, 0), HasSubstr("problem is null"));
  EXPECT_THAT(refused(Text("forward").c_str(), 0, 0),
              AllOf(HasSubstr("0 images"), HasSubstr("accepted")));
  EXPECT_THAT(refused(Text("forward").c_str(), INT64_MAX, 0),
              HasSubstr("images"));
  EXPECT_THAT(refused(Text("forward").c_str(), 4, -1),
              AllOf(HasSubstr("-1 bytes"), HasSubstr("0 or more")));
  EXPECT_EQ(ucudnn_conv_plan(nullptr, Text("forward").c_str(), 4, 0, &conv),
            kInvalidArgument);
  EXPECT_EQ(
      ucudnn_conv_plan(device_.get(), Text("forward").c_str(), 4, 0, nullptr),
      kInvalidArgument);
  EXPECT_EQ(ucudnn_conv_open_cpu(-1, nullptr), kInvalidArgument);
  ucudnn_conv_device* device = nullptr;
  EXPECT_EQ(ucudnn_conv_open_cpu(-1, &device), kInvalidArgument);
  EXPECT_EQ(device, nullptr);
  setenv("UCUDNN_BATCH_SIZE_POLICY", "some", 1);
  EXPECT_EQ(ucudnn_conv_open_cpu(1, &device), kInvalidArgument);
  unsetenv("UCUDNN_BATCH_SIZE_POLICY");
  EXPECT_THAT(ucudnn_conv_last_error(), HasSubstr("UCUDNN_BATCH_SIZE_POLICY"));
}

TEST_F(ConvTest, LeavesNoConvolutionIfOneOfManyIsMalformed) {
  const std::string good = Text("forward");
  const char* const problems[] = {good.c_str(), "nonsense"};
  const std::int64_t batches[] = {4, 4};
  ucudnn_conv* convs[2] = {};
  EXPECT_EQ(
      ucudnn_conv_divide(device_.get(), problems, batches, 2, 1 << 20, convs),
      kInvalidArgument);
  EXPECT_EQ(convs[0], nullptr);
  EXPECT_EQ(
      ucudnn_conv_divide(device_.get(), nullptr, batches, 2, 1 << 20, convs),
      kInvalidArgument);
  EXPECT_EQ(
      ucudnn_conv_divide(device_.get(), problems, nullptr, 2, 1 << 20, convs),
      kInvalidArgument);
}

TEST_F(ConvTest, ChecksPointersBeforeItComputes) {
  // Without a workspace only slow algorithms fit, or none.
  const Conv conv = Plan(Text("forward"));
  const auto run = [&](const void* a, void* workspace, std::int64_t size,
                       void* stream) {
    alignas(64) static float b[4096];
    alignas(64) static float out[4096];
    return ucudnn_conv_run(conv.get(), stream, a, b, out, 1, 0, workspace,
                           size);
  };
  std::vector<float> a(4096);
  const std::int64_t size = ucudnn_conv_workspace(conv.get());
  std::vector<char> space(static_cast<std::size_t>(size) + 128);
  char* const aligned =
      space.data() + 64 - reinterpret_cast<std::uintptr_t>(space.data()) % 64;
  EXPECT_EQ(run(a.data(), aligned, size, nullptr), 0);
  EXPECT_EQ(run(nullptr, aligned, size, nullptr), kInvalidArgument);
  EXPECT_THAT(ucudnn_conv_last_error(), HasSubstr("operand"));
  EXPECT_EQ(run(a.data(), aligned, size, aligned), kInvalidArgument);
  EXPECT_THAT(ucudnn_conv_last_error(), HasSubstr("stream"));
  if (size > 0) {
    EXPECT_EQ(run(a.data(), aligned, size - 1, nullptr), kInvalidArgument);
    EXPECT_EQ(run(a.data(), aligned + 1, size, nullptr), kInvalidArgument);
    EXPECT_EQ(run(a.data(), nullptr, size, nullptr), kInvalidArgument);
  }
  EXPECT_EQ(ucudnn_conv_run(nullptr, nullptr, a.data(), a.data(), a.data(), 1,
                            0, nullptr, 0),
            kInvalidArgument);
}

TEST_F(ConvTest, IgnoresNullWhereNothingIsToBeDone) {
  ucudnn_conv_close(nullptr);
  ucudnn_conv_free(nullptr);
  EXPECT_EQ(ucudnn_conv_workspace(nullptr), 0);
  EXPECT_STREQ(ucudnn_conv_text(nullptr), "");
  EXPECT_STREQ(ucudnn_conv_device_kind(nullptr), "");
  EXPECT_THAT(ucudnn_conv_device_kind(device_.get()), HasSubstr("onednn"));
  EXPECT_EQ(std::string(ucudnn_conv_version()).substr(0, 2), "1.");
}

}  // namespace
}  // namespace ucudnn
