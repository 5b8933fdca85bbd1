#ifndef UCUDNN_DEVICE_CUDNN_LEGACY_ALGORITHMS_H_
#define UCUDNN_DEVICE_CUDNN_LEGACY_ALGORITHMS_H_

// The names of what cudnnConvolutionForward and its two siblings can be asked
// for: an algorithm and a kind of arithmetic. Pure tables.

#include <cudnn.h>

#include <span>
#include <string_view>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"

namespace ucudnn::cudnn {

// cuDNN's own name less its prefix ("FFT_TILING", "ALGO_1"); `value` is of the
// operation's enumeration.
struct LegacyAlgorithm {
  std::string_view name;
  int value;
};

// In the order of cuDNN's enumeration, less the two that it never implemented.
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
// and float data it would round to half, below what was asked for. Nor is FMA
// for 16-bit data, where DEFAULT already keeps to it where it likes.
std::span<const LegacyMath> LegacyMaths(Precision asked);

// The pair that `algorithm` names, of an operation in a precision. kNotFound
// if there is none, naming what there is.
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
