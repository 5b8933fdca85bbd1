// The normalizations of ucudnn/conv.h on a GPU simulated on the host
// (tests/support/fake_gpu), which has them in bfloat16.

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/fake_gpu/fake_gpu.h"
#include "ucudnn/conv.h"

namespace ucudnn {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kInvalidArgument = 3;
constexpr int kUnimplemented = 12;
constexpr std::size_t kImages = 3;
constexpr std::size_t kChannels = 4;
constexpr std::size_t kPixels = 2 * 5;
constexpr std::size_t kElements = kImages * kChannels * kPixels;
constexpr double kEpsilon = 1e-3;
constexpr double kMomentum = 0.25;

// Multiples of 1/8 in [-2, 2], which bfloat16 represents exactly.
std::vector<float> Values(std::size_t seed) {
  std::vector<float> values(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    values[i] = static_cast<float>((i * 37 + seed * 11) % 33) / 8 - 2;
  }
  return values;
}
std::vector<std::uint16_t> Narrow(const std::vector<float>& values) {
  std::vector<std::uint16_t> narrow;
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    narrow.push_back(static_cast<std::uint16_t>(bits >> 16));
  }
  return narrow;
}
float Wide(std::uint16_t narrow) {
  const std::uint32_t bits = std::uint32_t{narrow} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

class NormFakeTest : public ::testing::Test {
 protected:
  NormFakeTest() {
    EXPECT_EQ(ucudnn_conv_open_gpu(nullptr, 0, &device_), 0)
        << ucudnn_conv_last_error();
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  ~NormFakeTest() override {
    ucudnn_conv_norm_free(norm_);
    ucudnn_conv_close(device_);
    cuStreamDestroy(stream_);
  }

  void Prepare(bool adds) {
    ASSERT_EQ(ucudnn_conv_norm_prepare(device_, "BF16", kImages, kChannels, 2,
                                       5, adds ? 1 : 0, &norm_),
              0)
        << ucudnn_conv_last_error();
    adds_ = adds;
    reserve_.resize(static_cast<std::size_t>(ucudnn_conv_norm_reserve(norm_)));
  }
  ucudnn_conv_norm_forward_args ForwardArgs() {
    return {.x = x_.data(),
            .z = adds_ ? z_.data() : nullptr,
            .scale = scale_.data(),
            .bias = bias_.data(),
            .running_mean = running_mean_.data(),
            .running_variance = running_variance_.data(),
            .momentum = kMomentum,
            .epsilon = kEpsilon,
            .y = y_.data(),
            .mean = mean_.data(),
            .inverse_deviation = inverse_.data(),
            .reserve = reserve_.empty() ? nullptr : reserve_.data()};
  }
  ucudnn_conv_norm_backward_args BackwardArgs() {
    return {.x = x_.data(),
            .dy = dy_.data(),
            .scale = scale_.data(),
            .bias = bias_.data(),
            .mean = mean_.data(),
            .inverse_deviation = inverse_.data(),
            .reserve = reserve_.empty() ? nullptr : reserve_.data(),
            .epsilon = kEpsilon,
            .dx = dx_.data(),
            .dz = adds_ ? dz_.data() : nullptr,
            .dscale = dscale_.data(),
            .dbias = dbias_.data()};
  }
  int Forward() {
    const auto args = ForwardArgs();
    return ucudnn_conv_norm_forward(norm_, stream_, &args, workspace_,
                                    ucudnn_conv_norm_forward_workspace(norm_));
  }
  int Backward() {
    const auto args = BackwardArgs();
    return ucudnn_conv_norm_backward(
        norm_, stream_, &args, workspace_,
        ucudnn_conv_norm_backward_workspace(norm_));
  }

  // What the normalization is, element by element, in double.
  double Normal(std::size_t i) const {
    const std::size_t c = i % kChannels;
    double mean = 0;
    double square = 0;
    for (std::size_t k = c; k < kElements; k += kChannels) mean += Wide(x_[k]);
    mean /= kImages * kPixels;
    for (std::size_t k = c; k < kElements; k += kChannels) {
      square += (Wide(x_[k]) - mean) * (Wide(x_[k]) - mean);
    }
    return (Wide(x_[i]) - mean) /
           std::sqrt(square / (kImages * kPixels) + kEpsilon);
  }
  double Before(std::size_t i) const {
    const std::size_t c = i % kChannels;
    return Normal(i) * scale_[c] + bias_[c] + (adds_ ? Wide(z_[i]) : 0);
  }
  void ExpectRight() {
    double of_bias[kChannels] = {};
    double of_scale[kChannels] = {};
    for (std::size_t i = 0; i < kElements; ++i) {
      const double expected = std::max(Before(i), 0.0);
      EXPECT_NEAR(Wide(y_[i]), expected, 0.01 * expected + 1e-6) << i;
      const double gradient = Before(i) > 0 ? Wide(dy_[i]) : 0;
      if (adds_) {
        EXPECT_EQ(Wide(dz_[i]), gradient) << i;
      }
      of_bias[i % kChannels] += gradient;
      of_scale[i % kChannels] += gradient * Normal(i);
    }
    for (std::size_t c = 0; c < kChannels; ++c) {
      EXPECT_NEAR(dbias_[c], of_bias[c], 1e-4);
      EXPECT_NEAR(dscale_[c], of_scale[c], 1e-4);
      // The input's gradients have no part that moves or scales a channel.
      double sum = 0;
      for (std::size_t i = c; i < kElements; i += kChannels)
        sum += Wide(dx_[i]);
      EXPECT_NEAR(sum, 0, 0.05);
      EXPECT_FLOAT_EQ(running_mean_[c],
                      static_cast<float>(kMomentum * mean_[c]));
    }
  }

  ucudnn_conv_device* device_ = nullptr;
  ucudnn_conv_norm* norm_ = nullptr;
  CUstream stream_ = nullptr;
  bool adds_ = false;
  const std::vector<std::uint16_t> x_ = Narrow(Values(1));
  const std::vector<std::uint16_t> z_ = Narrow(Values(2));
  const std::vector<std::uint16_t> dy_ = Narrow(Values(3));
  const std::vector<float> scale_ = {1, 0.5, 2, -1};
  const std::vector<float> bias_ = {0, 0.25, -0.5, 1};
  std::vector<float> running_mean_ = std::vector<float>(kChannels);
  std::vector<float> running_variance_ = std::vector<float>(kChannels, 1);
  std::vector<float> mean_ = std::vector<float>(kChannels);
  std::vector<float> inverse_ = std::vector<float>(kChannels);
  std::vector<float> dscale_ = std::vector<float>(kChannels);
  std::vector<float> dbias_ = std::vector<float>(kChannels);
  std::vector<std::uint16_t> y_ = std::vector<std::uint16_t>(kElements);
  std::vector<std::uint16_t> dx_ = std::vector<std::uint16_t>(kElements);
  std::vector<std::uint16_t> dz_ = std::vector<std::uint16_t>(kElements);
  std::vector<char> reserve_;
  alignas(256) char workspace_[256] = {};
};

TEST_F(NormFakeTest, NormalizesAndCutsOff) {
  Prepare(false);
  EXPECT_EQ(ucudnn_conv_norm_reserve(norm_), 0);
  ASSERT_EQ(Forward(), 0) << ucudnn_conv_last_error();
  ASSERT_EQ(Backward(), 0) << ucudnn_conv_last_error();
  ExpectRight();
}

TEST_F(NormFakeTest, AddsBeforeItCutsOff) {
  Prepare(true);
  EXPECT_GT(ucudnn_conv_norm_reserve(norm_), 0);
  ASSERT_EQ(Forward(), 0) << ucudnn_conv_last_error();
  ASSERT_EQ(Backward(), 0) << ucudnn_conv_last_error();
  ExpectRight();
}

TEST_F(NormFakeTest, NeedsNoRunningStatistics) {
  Prepare(false);
  auto args = ForwardArgs();
  args.running_mean = args.running_variance = nullptr;
  EXPECT_EQ(ucudnn_conv_norm_forward(norm_, stream_, &args, workspace_, 256), 0)
      << ucudnn_conv_last_error();
  EXPECT_THAT(running_variance_, Each(1.0F));
}

TEST_F(NormFakeTest, BecomesPartOfTheCallersGraph) {
  Prepare(true);
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(Forward(), 0) << ucudnn_conv_last_error();
  EXPECT_EQ(Backward(), 0) << ucudnn_conv_last_error();
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_THAT(y_, Each(0)) << "nothing ran yet";
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  ExpectRight();
  EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(NormFakeTest, RefusesWhatCannotBePrepared) {
  const auto refused = [&](const char* type, std::int64_t channels, int code) {
    EXPECT_EQ(
        ucudnn_conv_norm_prepare(device_, type, 1, channels, 2, 5, 0, &norm_),
        code);
    EXPECT_EQ(norm_, nullptr);
    return std::string(ucudnn_conv_last_error());
  };
  EXPECT_THAT(refused(nullptr, 4, kInvalidArgument), HasSubstr("type is null"));
  EXPECT_THAT(refused("FP32", 4, kInvalidArgument),
              HasSubstr("\"FP32\"; HALF and BF16 are accepted"));
  EXPECT_THAT(refused("BF16", 0, kInvalidArgument),
              HasSubstr("channels of a normalization: 0; 1 to"));
  EXPECT_THAT(refused("BF16", std::int64_t{1} << 31, kInvalidArgument),
              HasSubstr("2147483648"));
  EXPECT_THAT(refused("BF16", 2147483647, kUnimplemented),
              HasSubstr("too large for cuDNN"));
  EXPECT_THAT(refused("HALF", 4, kUnimplemented),
              HasSubstr("cudnnGetBatchNormalizationForwardTrainingEx"));
  EXPECT_EQ(ucudnn_conv_norm_prepare(nullptr, "BF16", 1, 4, 2, 5, 0, &norm_),
            kInvalidArgument);
  EXPECT_EQ(ucudnn_conv_norm_prepare(device_, "BF16", 1, 4, 2, 5, 0, nullptr),
            kInvalidArgument);
}

TEST_F(NormFakeTest, RefusesOperandsThatAreMissing) {
  Prepare(true);
  auto args = ForwardArgs();
  const auto refused = [&](std::int64_t workspace) {
    EXPECT_EQ(
        ucudnn_conv_norm_forward(norm_, stream_, &args, workspace_, workspace),
        kInvalidArgument);
    const std::string message = ucudnn_conv_last_error();
    args = ForwardArgs();
    return message;
  };
  args.bias = nullptr;
  EXPECT_THAT(refused(256), HasSubstr("operand bias is null"));
  args.z = nullptr;
  EXPECT_THAT(refused(256),
              HasSubstr("operand z is null; it was prepared with a sum"));
  args.running_mean = nullptr;
  EXPECT_THAT(refused(256), HasSubstr("both or neither are accepted"));
  args.reserve = nullptr;
  EXPECT_THAT(refused(256), HasSubstr("the reserve is null; 120 bytes"));
  EXPECT_THAT(refused(63), HasSubstr("63 bytes at"));
  auto back = BackwardArgs();
  back.dz = nullptr;
  EXPECT_EQ(ucudnn_conv_norm_backward(norm_, stream_, &back, workspace_, 256),
            kInvalidArgument);
  EXPECT_EQ(ucudnn_conv_norm_forward(norm_, stream_, nullptr, workspace_, 256),
            kInvalidArgument);
  EXPECT_EQ(ucudnn_conv_norm_backward(nullptr, stream_, &back, workspace_, 256),
            kInvalidArgument);
}

}  // namespace
}  // namespace ucudnn
