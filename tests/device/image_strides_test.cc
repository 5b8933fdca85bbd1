#include "device/image_strides.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(ImageStridesTest, LeadToTheImagesOfEachOperand) {
  ConvProblem problem;
  problem.precision = Precision::kTrueHalf;
  problem.geometry.channels = 3;
  problem.geometry.filters = 5;
  problem.geometry.input = {1, 4, 4};
  problem.geometry.filter = {1, 1, 1};
  constexpr std::int64_t kInput = 3 * 16 * 2;
  constexpr std::int64_t kOutput = 5 * 16 * 2;
  const char a[4 * kOutput] = {};
  const char b[4 * kOutput] = {};
  char out[4 * kOutput] = {};
  const ConvArgs args = {a, b, out, 2.0F, 0.5F};
  const struct {
    ConvOp op;
    std::int64_t a;
    std::int64_t b;
    std::int64_t out;
  } cases[] = {{ConvOp::kForward, kInput, 0, kOutput},
               {ConvOp::kBackwardData, kOutput, 0, kInput},
               {ConvOp::kBackwardFilter, kInput, kOutput, 0}};
  for (const auto& expected : cases) {
    problem.op = expected.op;
    const ConvArgs from = ArgsFrom(args, PackedStrides(problem), 3);
    EXPECT_EQ(from, (ConvArgs{a + 3 * expected.a, b + 3 * expected.b,
                              out + 3 * expected.out, 2.0F, 0.5F}));
  }
}

}  // namespace
}  // namespace ucudnn
