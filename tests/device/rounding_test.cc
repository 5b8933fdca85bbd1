#include "device/rounding.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

ConvGeometry WithFilter(std::int64_t size) {
  ConvGeometry g;
  g.filter = {1, size, size};
  return g;
}

TEST(RoundingTest, AdmitsMoreInLowerPrecisions) {
  EXPECT_LT(ToleranceOf(Precision::kFp32), ToleranceOf(Precision::kTf32));
  EXPECT_LT(ToleranceOf(Precision::kTf32), ToleranceOf(Precision::kBf16));
  EXPECT_LT(ToleranceOf(Precision::kPseudoHalf),
            ToleranceOf(Precision::kTrueHalf));
}

TEST(RoundingTest, AdmitsMoreOfWinogradBeyond3x3OnlyInFp32) {
  const Algorithm winograd = {"WINOGRAD_NONFUSED", "FMA", Precision::kFp32};
  const Algorithm fft = {"FFT", "FMA", Precision::kFp32};
  EXPECT_TRUE(IsLargeWinograd(winograd, WithFilter(5)));
  EXPECT_FALSE(IsLargeWinograd(winograd, WithFilter(3)));
  EXPECT_FALSE(IsLargeWinograd(fft, WithFilter(5)));
  EXPECT_GT(ToleranceOf(winograd, WithFilter(5)),
            ToleranceOf(winograd, WithFilter(3)));
  EXPECT_EQ(ToleranceOf(winograd, WithFilter(3)),
            ToleranceOf(Precision::kFp32));
  const Algorithm half = {"WINOGRAD_NONFUSED", "", Precision::kPseudoHalf};
  EXPECT_EQ(ToleranceOf(half, WithFilter(5)),
            ToleranceOf(Precision::kPseudoHalf));
}

}  // namespace
}  // namespace ucudnn
