#include "base/conv_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

// AlexNet's conv2 as Caffe has it.
ConvProblem Conv2() {
  ConvGeometry g;
  g.channels = 96;
  g.filters = 256;
  g.groups = 2;
  g.input = {1, 27, 27};
  g.filter = {1, 5, 5};
  g.padding = {0, 2, 2};
  return {ConvOp::kBackwardData, g, Precision::kTrueHalf, Layout::kNhwc};
}

TEST(ConvProblemTest, HasOneTextForm) {
  EXPECT_EQ(ToString(Conv2()),
            "backward_data-c96-h27w27-k256-r5s5-pad2x2-str1x1-dil1x1-g2-"
            "TRUE_HALF-NHWC");
}

TEST(ConvProblemTest, CountsImagesThatAreFoldedIntoTheBatch) {
  ConvProblem p = Conv2();
  p.geometry.images = 16;
  EXPECT_EQ(ToString(p),
            "backward_data-n16-c96-h27w27-k256-r5s5-pad2x2-str1x1-dil1x1-g2-"
            "TRUE_HALF-NHWC");
  EXPECT_EQ(p.geometry.input_elements(),
            16 * Conv2().geometry.input_elements());
  EXPECT_EQ(p.geometry.multiply_adds(), 16 * Conv2().geometry.multiply_adds());
  EXPECT_EQ(p.geometry.filter_elements(), Conv2().geometry.filter_elements());
  const ConvWork work = Unfold(p, BatchSize(3));
  EXPECT_EQ(work.problem, Conv2());
  EXPECT_EQ(work.batch, BatchSize(48));
  p.geometry.images = 0;
  EXPECT_THAT(Validate(p.geometry).error().message, HasSubstr("images"));
}

TEST(ConvProblemTest, ReadsBackWhatItWrites) {
  ConvProblem p = Conv2();
  EXPECT_EQ(ParseConvProblem(ToString(p)).value(), p);
  p.geometry.spatial_dims = 3;
  p.geometry.input = {8, 28, 30};
  p.geometry.filter = {3, 3, 1};
  p.geometry.padding = {1, 1, 0};
  p.geometry.stride = {1, 2, 2};
  p.geometry.dilation = {2, 1, 1};
  EXPECT_EQ(ParseConvProblem(ToString(p)).value(), p);
}

ConvProblem RandomProblem(std::mt19937* random) {
  const auto below = [&](std::uint32_t n) {
    return std::int64_t((*random)() % n);
  };
  ConvProblem p;
  p.op = kConvOps[std::size_t(below(3))];
  p.precision = kPrecisions[std::size_t(below(5))];
  p.layout = kLayouts[std::size_t(below(2))];
  ConvGeometry& g = p.geometry;
  g.spatial_dims = 2 + static_cast<int>(below(2));
  g.images = below(3) == 0 ? 1 + below(40) : 1;
  g.groups = 1 + below(4);
  g.channels = g.groups * (1 + below(500));
  g.filters = g.groups * (1 + below(500));
  for (std::size_t i = g.spatial_dims == 3 ? 0 : 1; i < 3; ++i) {
    g.filter[i] = 1 + below(11);
    g.padding[i] = below(6);
    g.stride[i] = 1 + below(5);
    g.dilation[i] = 1 + below(4);
    g.input[i] = 1 + below(300);
  }
  return p;
}

TEST(ConvProblemTest, ReadsBackEveryValidProblem) {
  std::mt19937 random(1);
  int valid = 0;
  for (int round = 0; round < 5000; ++round) {
    const ConvProblem p = RandomProblem(&random);
    if (Validate(p.geometry)) {
      ++valid;
      ASSERT_EQ(ParseConvProblem(ToString(p)).value(), p) << ToString(p);
    } else {
      ASSERT_FALSE(ParseConvProblem(ToString(p))) << ToString(p);
    }
  }
  EXPECT_GT(valid, 4000);
}

TEST(ConvProblemTest, NeverReadsTwoTextsAsOneProblem) {
  std::mt19937 random(2);
  constexpr std::string_view kAlphabet = "0123456789-cdhwkrstpagFNHWC_x";
  for (int round = 0; round < 5000; ++round) {
    const std::string good = ToString(RandomProblem(&random));
    std::string text = good;
    text[random() % text.size()] = kAlphabet[random() % kAlphabet.size()];
    if (const auto problem = ParseConvProblem(text)) {
      EXPECT_EQ(ToString(*problem), text);
    }
  }
}

TEST(ConvProblemTest, RefusesTextsThatAreNotCanonical) {
  const std::string good = ToString(Conv2());
  for (const auto& [from, to, why] :
       {std::tuple{"c96", "c096", "canonical form"},
        std::tuple{"c96", "c0", "C is 0"},
        std::tuple{"c96", "x96", "should start with 'c'"},
        std::tuple{"g2", "g3", "groups is 3"},
        std::tuple{"pad2x2", "pad2", "should hold 2 numbers"},
        std::tuple{"pad2x2", "pad0x0-x", "should start with 'str'"},
        std::tuple{"r5s5", "r50s5", "filter's height is 50"},
        std::tuple{"h27w27", "w27h27", "should name hw"},
        std::tuple{"h27w27", "h27w99999999999", "not a whole number"},
        std::tuple{"NHWC", "NHWC-", "there is text after the layout"},
        std::tuple{"TRUE_HALF", "FP31", "FP32, TF32, TRUE_HALF"}}) {
    std::string text = good;
    text.replace(text.find(from), std::string(from).size(), to);
    const auto problem = ParseConvProblem(text);
    ASSERT_FALSE(problem) << text;
    EXPECT_EQ(problem.error().code, Code::kInvalidArgument);
    EXPECT_THAT(problem.error().message, HasSubstr(why));
  }
  EXPECT_FALSE(ParseConvProblem(""));
}

TEST(ConvProblemTest, KnowsShapesAndOperations) {
  const ConvGeometry g = Conv2().geometry;
  EXPECT_EQ(g.output(), (Spatial{1, 27, 27}));
  EXPECT_EQ(g.input_elements(), 96 * 27 * 27);
  EXPECT_EQ(g.filter_elements(), 256 * 48 * 25);
  EXPECT_EQ(g.multiply_adds(), 256LL * 27 * 27 * 48 * 25);
  ConvGeometry strided = g;
  strided.stride = {1, 2, 3};
  strided.dilation = {1, 3, 1};
  EXPECT_EQ(strided.output(), (Spatial{1, 10, 9}));
}

TEST(ConvProblemTest, RefusesSizesThatAreTooLarge) {
  ConvGeometry g;
  g.channels = 1 << 30;
  g.input = {1, 1 << 20, 1 << 20};
  EXPECT_THAT(Validate(g).error().message, HasSubstr("too large"));
}

TEST(ConvProblemTest, AdmitsOnlyAtLeastAsPreciseArithmetic) {
  EXPECT_TRUE(Admits(Precision::kTrueHalf, Precision::kPseudoHalf));
  EXPECT_TRUE(Admits(Precision::kTf32, Precision::kFp32));
  EXPECT_FALSE(Admits(Precision::kPseudoHalf, Precision::kTrueHalf));
  EXPECT_FALSE(Admits(Precision::kFp32, Precision::kTf32));
  EXPECT_FALSE(Admits(Precision::kBf16, Precision::kFp32));
}

}  // namespace
}  // namespace ucudnn
