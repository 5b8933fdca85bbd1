#include "device/elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(ElementsTest, AreExactInEveryPrecision) {
  for (const Precision precision : kPrecisions) {
    const std::string bytes = RandomElements(1000, precision, 7);
    const auto values = DecodeElements(bytes, precision);
    ASSERT_THAT(values, SizeIs(1000));
    for (const float value : values) {
      EXPECT_EQ(value * 64, std::round(value * 64)) << Name(precision);
      EXPECT_GE(std::abs(value), 1.0F / 64);
      EXPECT_LE(std::abs(value), 1.0F);
    }
    EXPECT_EQ(bytes, RandomElements(1000, precision, 7));
    EXPECT_NE(bytes, RandomElements(1000, precision, 8));
  }
  // The same numbers in every precision.
  EXPECT_EQ(DecodeElements(RandomElements(99, Precision::kTrueHalf, 1),
                           Precision::kTrueHalf),
            DecodeElements(RandomElements(99, Precision::kBf16, 1),
                           Precision::kBf16));
}

TEST(ElementsTest, DecodeHalves) {
  const std::string bytes("\x00\x3c\x01\x00\xff\x7b\x00\xfc", 8);
  EXPECT_THAT(DecodeElements(bytes, Precision::kPseudoHalf),
              ElementsAre(1.0F, std::ldexp(1.0F, -24), 65504.0F,
                          -std::numeric_limits<float>::infinity()));
}

}  // namespace
}  // namespace ucudnn
