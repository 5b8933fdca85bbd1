#ifndef UCUDNN_TESTS_SUPPORT_REFERENCE_CONV_H_
#define UCUDNN_TESTS_SUPPORT_REFERENCE_CONV_H_

// A convolution computed the obvious way, in double: the reference for every
// backend. Two and three dimensions, groups, strides, dilation, padding, both
// layouts, three operations.

#include <cstdint>
#include <vector>

#include "base/conv_problem.h"
#include "base/units.h"

namespace ucudnn::test {

// Elements of the operands of ConvArgs for a batch.
struct OperandSizes {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t out = 0;
};
OperandSizes SizesOf(const ConvProblem& problem, BatchSize batch);

struct ReferenceResult {
  std::vector<double> out;  // op(a, b)
  // The largest sum, over the elements of out, of the absolute values of the
  // products that were added: rounding errors are proportional to it.
  double scale = 0;
};

// a and b are packed in the problem's layout, with the sizes of SizesOf; so is
// the result. Two multiply-adds for each of the convolution's.
ReferenceResult ReferenceConv(const ConvProblem& problem, BatchSize batch,
                              const std::vector<double>& a,
                              const std::vector<double>& b);

// Values that every precision represents exactly: multiples of 1/8 in
// [-1, 1] without 0, the same for the same seed.
std::vector<double> ExactValues(std::int64_t count, std::uint64_t seed);

// Elements as a device holds them: float for FP32 and TF32, half, bfloat16.
// Encoding rounds to nearest, ties to even.
std::vector<unsigned char> Encode(const std::vector<double>& values,
                                  Precision precision);
std::vector<double> Decode(const std::vector<unsigned char>& bytes,
                           Precision precision);

// A small FP32 convolution with two groups, in which no two axes are alike.
ConvProblem GroupedProblem(ConvOp op, Layout layout = Layout::kNchw);

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_REFERENCE_CONV_H_
