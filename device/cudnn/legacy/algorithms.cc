#include "device/cudnn/legacy/algorithms.h"

#include <array>
#include <string>

namespace ucudnn::cudnn {
namespace {

constexpr std::array kForward = {
    LegacyAlgorithm{"IMPLICIT_GEMM", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM},
    LegacyAlgorithm{"IMPLICIT_PRECOMP_GEMM",
                    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM},
    LegacyAlgorithm{"GEMM", CUDNN_CONVOLUTION_FWD_ALGO_GEMM},
    LegacyAlgorithm{"FFT", CUDNN_CONVOLUTION_FWD_ALGO_FFT},
    LegacyAlgorithm{"FFT_TILING", CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING},
    LegacyAlgorithm{"WINOGRAD", CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD},
    LegacyAlgorithm{"WINOGRAD_NONFUSED",
                    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED},
};

constexpr std::array kBackwardData = {
    LegacyAlgorithm{"ALGO_0", CUDNN_CONVOLUTION_BWD_DATA_ALGO_0},
    LegacyAlgorithm{"ALGO_1", CUDNN_CONVOLUTION_BWD_DATA_ALGO_1},
    LegacyAlgorithm{"FFT", CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT},
    LegacyAlgorithm{"FFT_TILING", CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING},
    LegacyAlgorithm{"WINOGRAD", CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD},
    LegacyAlgorithm{"WINOGRAD_NONFUSED",
                    CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED},
};

constexpr std::array kBackwardFilter = {
    LegacyAlgorithm{"ALGO_0", CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0},
    LegacyAlgorithm{"ALGO_1", CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1},
    LegacyAlgorithm{"FFT", CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT},
    LegacyAlgorithm{"ALGO_3", CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3},
    LegacyAlgorithm{"WINOGRAD_NONFUSED",
                    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED},
    LegacyAlgorithm{"FFT_TILING", CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING},
};

constexpr LegacyMath Default(Precision precision) {
  return {precision, "DEFAULT", CUDNN_DEFAULT_MATH};
}
constexpr LegacyMath TensorOp(Precision precision) {
  return {precision, "TENSOR_OP", CUDNN_TENSOR_OP_MATH};
}

constexpr std::array kFp32 = {
    LegacyMath{Precision::kFp32, "FMA", CUDNN_FMA_MATH}};
constexpr std::array kTf32 = {Default(Precision::kTf32),
                              TensorOp(Precision::kTf32), kFp32[0]};
constexpr std::array kTrueHalf = {
    Default(Precision::kTrueHalf), TensorOp(Precision::kTrueHalf),
    Default(Precision::kPseudoHalf), TensorOp(Precision::kPseudoHalf)};
constexpr std::array kPseudoHalf = {Default(Precision::kPseudoHalf),
                                    TensorOp(Precision::kPseudoHalf)};
constexpr std::array kBf16 = {Default(Precision::kBf16),
                              TensorOp(Precision::kBf16)};

}  // namespace

std::span<const LegacyAlgorithm> LegacyAlgorithms(ConvOp op) {
  switch (op) {
    case ConvOp::kForward:
      return kForward;
    case ConvOp::kBackwardData:
      return kBackwardData;
    case ConvOp::kBackwardFilter:
      return kBackwardFilter;
  }
  return {};
}

std::span<const LegacyMath> LegacyMaths(Precision asked) {
  switch (asked) {
    case Precision::kFp32:
      return kFp32;
    case Precision::kTf32:
      return kTf32;
    case Precision::kTrueHalf:
      return kTrueHalf;
    case Precision::kPseudoHalf:
      return kPseudoHalf;
    case Precision::kBf16:
      return kBf16;
  }
  return {};
}

Result<LegacyChoice> FindLegacy(ConvOp op, Precision asked,
                                const Algorithm& algorithm) {
  for (const LegacyAlgorithm& candidate : LegacyAlgorithms(op)) {
    if (candidate.name != algorithm.name) continue;
    std::string maths;
    for (const LegacyMath& math : LegacyMaths(asked)) {
      if (math.name == algorithm.math &&
          math.precision == algorithm.precision) {
        return LegacyChoice{candidate, math};
      }
      maths += fmt::format("{}{} {}", maths.empty() ? "" : ", ",
                           Name(math.precision), math.name);
    }
    return Fail(Code::kNotFound, "{} {} does not serve {}; one of {} does",
                Name(algorithm.precision), algorithm.math, Name(asked), maths);
  }
  std::string names;
  for (const LegacyAlgorithm& candidate : LegacyAlgorithms(op)) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", candidate.name);
  }
  return Fail(Code::kNotFound,
              "'{}' is not a cuDNN algorithm for {}; one of {} is accepted",
              algorithm.name, Name(op), names);
}

cudnnDataType_t DataType(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kTf32:
      return CUDNN_DATA_FLOAT;
    case Precision::kTrueHalf:
    case Precision::kPseudoHalf:
      return CUDNN_DATA_HALF;
    case Precision::kBf16:
      return CUDNN_DATA_BFLOAT16;
  }
  return CUDNN_DATA_FLOAT;
}

cudnnDataType_t ComputeType(Precision precision) {
  return precision == Precision::kTrueHalf ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

}  // namespace ucudnn::cudnn
