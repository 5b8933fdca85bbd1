#ifndef UCUDNN_DEVICE_CUDNN_LEGACY_ALGORITHMS_H_
#define UCUDNN_DEVICE_CUDNN_LEGACY_ALGORITHMS_H_

// The names of the algorithms and kinds of arithmetic that
// cudnnConvolutionForward and its two siblings accept. Pure tables.

#include <cudnn.h>

#include <span>
#include <string_view>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"

namespace ucudnn::cudnn {

// cuDNN's own name without its prefix ("FFT_TILING", "ALGO_1"); `value` is of
// the operation's enumeration.
struct LegacyAlgorithm {
  std::string_view name;
  int value;
};

// In the order of cuDNN's enumeration, without the two that it never
// implemented.
std::span<const LegacyAlgorithm> LegacyAlgorithms(ConvOp op);

// The arithmetic of a convolution descriptor.
struct LegacyMath {
  Precision precision;    // what it computes in
  std::string_view name;  // "FMA", "DEFAULT", "TENSOR_OP"
  cudnnMathType_t type;
};

// What may serve a request for `asked`, in the order of listing:
//   FP32         FMA
//   TF32         DEFAULT and TENSOR_OP, and FP32's FMA
//   TRUE_HALF    DEFAULT and TENSOR_OP, and PSEUDO_HALF's
//   PSEUDO_HALF  DEFAULT and TENSOR_OP
//   BF16         DEFAULT and TENSOR_OP
// TENSOR_OP_ALLOW_CONVERSION is never offered: for 16-bit data it is TENSOR_OP,
// and it would round float data to half, below the requested precision. Nor is
// FMA offered for 16-bit data, where DEFAULT may already use it.
std::span<const LegacyMath> LegacyMaths(Precision asked);

// The pair that `algorithm` names for an operation and precision. kNotFound,
// listing what exists, if there is none.
struct LegacyChoice {
  LegacyAlgorithm algorithm;
  LegacyMath math;
};
Result<LegacyChoice> FindLegacy(ConvOp op, Precision asked,
                                const Algorithm& algorithm);

// Data and arithmetic of a precision in cuDNN's terms.
cudnnDataType_t DataType(Precision precision);
cudnnDataType_t ComputeType(Precision precision);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_LEGACY_ALGORITHMS_H_
