#include "tests/support/reference_conv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace ucudnn::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr BatchSize kOne(1);

// A 2x3 image of one channel and a 1x2 filter.
ConvProblem Tiny(ConvOp op) {
  ConvProblem p;
  p.op = op;
  p.geometry.input = {1, 2, 3};
  p.geometry.filter = {1, 1, 2};
  return p;
}

TEST(ReferenceConvTest, CorrelatesByHand) {
  //  1 2 3   *  10 1  =  12 23
  //  4 5 6               45 56
  const auto y =
      ReferenceConv(Tiny(ConvOp::kForward), kOne, {1, 2, 3, 4, 5, 6}, {10, 1});
  EXPECT_THAT(y.out, ElementsAre(12, 23, 45, 56));
  EXPECT_EQ(y.scale, 56);
}

TEST(ReferenceConvTest, SpreadsGradientsOfDataByHand) {
  const auto dx =
      ReferenceConv(Tiny(ConvOp::kBackwardData), kOne, {1, 2, 3, 4}, {10, 1});
  EXPECT_THAT(dx.out, ElementsAre(10, 21, 2, 30, 43, 4));
}

TEST(ReferenceConvTest, SumsGradientsOfFiltersByHand) {
  const auto dw = ReferenceConv(Tiny(ConvOp::kBackwardFilter), kOne,
                                {1, 2, 3, 4, 5, 6}, {1, -1, 1, -1});
  EXPECT_THAT(dw.out, ElementsAre(-2, -2));
  EXPECT_EQ(dw.scale, 16);
}

TEST(ReferenceConvTest, KnowsPaddingStrideAndDilation) {
  ConvProblem p;
  p.geometry.input = {1, 1, 5};
  p.geometry.filter = {1, 1, 2};
  p.geometry.padding = {0, 0, 1};
  p.geometry.stride = {1, 1, 2};
  p.geometry.dilation = {1, 1, 3};
  // Positions -1 and 2, 1 and 4.
  EXPECT_THAT(ReferenceConv(p, kOne, {1, 2, 3, 4, 5}, {10, 1}).out,
              ElementsAre(3, 25));
}

TEST(ReferenceConvTest, KeepsGroupsAndLayoutsApart) {
  ConvProblem p;
  p.geometry.channels = 2;
  p.geometry.filters = 4;
  p.geometry.groups = 2;
  p.geometry.input = {1, 1, 2};
  // Filters 1 and 2 see the first channel, 3 and 4 the second.
  EXPECT_THAT(ReferenceConv(p, kOne, {1, 2, 10, 20}, {1, 2, 3, 4}).out,
              ElementsAre(1, 2, 2, 4, 30, 60, 40, 80));
  p.layout = Layout::kNhwc;
  EXPECT_THAT(ReferenceConv(p, kOne, {1, 10, 2, 20}, {1, 2, 3, 4}).out,
              ElementsAre(1, 2, 30, 40, 2, 4, 60, 80));
}

// The three operations compute one trilinear form, <y, w * x>: it is the same
// whichever factor is computed last.
TEST(ReferenceConvTest, HasAdjointOperations) {
  ConvProblem p;
  p.geometry.spatial_dims = 3;
  p.geometry.channels = 4;
  p.geometry.filters = 6;
  p.geometry.groups = 2;
  p.geometry.input = {4, 5, 6};
  p.geometry.filter = {3, 2, 3};
  p.geometry.padding = {1, 0, 2};
  p.geometry.stride = {1, 2, 1};
  p.geometry.dilation = {1, 2, 1};
  const BatchSize batch(3);
  for (const Layout layout : kLayouts) {
    p.layout = layout;
    p.op = ConvOp::kForward;
    const OperandSizes sizes = SizesOf(p, batch);
    const auto x = ExactValues(sizes.a, 1);
    const auto w = ExactValues(sizes.b, 2);
    const auto y = ExactValues(sizes.out, 3);
    const auto form = [&](ConvOp op, const std::vector<double>& a,
                          const std::vector<double>& b,
                          const std::vector<double>& with) {
      p.op = op;
      const auto out = ReferenceConv(p, batch, a, b).out;
      double sum = 0;
      for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * with[i];
      return sum;
    };
    const double forward = form(ConvOp::kForward, x, w, y);
    EXPECT_NE(forward, 0);
    EXPECT_EQ(form(ConvOp::kBackwardData, y, w, x), forward);
    EXPECT_EQ(form(ConvOp::kBackwardFilter, x, y, w), forward);
  }
}

TEST(EncodeTest, KeepsExactValuesInEveryPrecision) {
  const std::vector<double> values = ExactValues(100, 7);
  EXPECT_THAT(values,
              Each(::testing::AllOf(::testing::Ne(0.0), ::testing::Ge(-1.0),
                                    ::testing::Le(1.0))));
  for (const Precision p : kPrecisions) {
    EXPECT_EQ(Decode(Encode(values, p), p), values) << Name(p);
  }
}

TEST(EncodeTest, RoundsHalvesAsTheStandardSays) {
  const auto half = [](double value) {
    const auto bytes = Encode({value}, Precision::kTrueHalf);
    return bytes[0] | (bytes[1] << 8);
  };
  EXPECT_EQ(half(1.0), 0x3c00);
  EXPECT_EQ(half(-2.0), 0xc000);
  EXPECT_EQ(half(65504), 0x7bff);
  EXPECT_EQ(half(65520), 0x7c00);                       // infinity
  EXPECT_EQ(half(std::ldexp(1, -24)), 1);               // the smallest
  EXPECT_EQ(half(std::ldexp(1, -14)), 0x400);           // the smallest normal
  EXPECT_EQ(half(1 + std::ldexp(1, -11)), 0x3c00);      // tie to even
  EXPECT_EQ(half(1 + 3 * std::ldexp(1, -11)), 0x3c02);  // tie to even
  EXPECT_EQ(half(2 - std::ldexp(1, -12)), 0x4000);      // carries
  EXPECT_TRUE(std::isnan(Decode({0xff, 0xff}, Precision::kTrueHalf)[0]));
  EXPECT_TRUE(std::isnan(Decode({0xff, 0xff}, Precision::kBf16)[0]));
}

}  // namespace
}  // namespace ucudnn::test
