#include "client/dropin/handle/call.h"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "device/cudnn/legacy/algorithms.h"
#include "device/cudnn/shapes.h"

namespace ucudnn::cudnn {
namespace {

constexpr int kMaxDims = 5;

// Offsets in a key's words.
enum Word : std::size_t {
  kOp = 0,
  kLayer = 1,         // two words
  kInput = 3,         // type, rank, five extents, five strides
  kFilter = 15,       // type, format, rank, five extents
  kOutput = 23,       // as kInput
  kConvolution = 35,  // rank, three paddings, strides, dilations
  kMode = 45,
  kComputeType,
  kMathType,
  kGroups,
};

bool ReadTensor(const CudnnApi& api, cudnnTensorDescriptor_t descriptor,
                std::int32_t* words) {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int rank = 0;
  if (api.GetTensorNdDescriptor(descriptor, kMaxDims, &type, &rank, words + 2,
                                words + 2 + kMaxDims) != CUDNN_STATUS_SUCCESS) {
    return false;
  }
  words[0] = type;
  words[1] = rank;
  return true;
}

// Whether NVIDIA_TF32_OVERRIDE switches TF32 off for all NVIDIA libraries.
bool IsTf32Off() {
  static const bool off = [] {
    const char* value = std::getenv("NVIDIA_TF32_OVERRIDE");
    return value != nullptr && std::string_view(value) == "0";
  }();
  return off;
}

// The arithmetic that a convolution descriptor allows.
Result<Precision> PrecisionOf(cudnnDataType_t data, cudnnDataType_t compute,
                              cudnnMathType_t math) {
  switch (data) {
    case CUDNN_DATA_FLOAT:
      if (compute != CUDNN_DATA_FLOAT) break;
      return math == CUDNN_FMA_MATH || IsTf32Off() ? Precision::kFp32
                                                   : Precision::kTf32;
    case CUDNN_DATA_HALF:
      // There is no Precision for 16-bit data without tensor cores.
      if (math == CUDNN_FMA_MATH) break;
      if (compute == CUDNN_DATA_HALF) return Precision::kTrueHalf;
      if (compute == CUDNN_DATA_FLOAT) return Precision::kPseudoHalf;
      break;
    case CUDNN_DATA_BFLOAT16:
      if (math == CUDNN_FMA_MATH) break;
      if (compute == CUDNN_DATA_FLOAT) return Precision::kBf16;
      break;
    default:
      break;
  }
  return Fail(Code::kUnimplemented,
              "data type {}, computation type {} and math type {} together",
              static_cast<int>(data), static_cast<int>(compute),
              static_cast<int>(math));
}

// Whether a tensor of the key has exactly this shape. Strides of dimensions of
// extent 1 are ignored.
bool IsShape(const std::int32_t* words, const TensorShape& shape) {
  if (words[1] != shape.rank) return false;
  for (int i = 0; i < shape.rank; ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (words[2 + i] != shape.dims[d]) return false;
    if (shape.dims[d] > 1 && words[2 + kMaxDims + i] != shape.strides[d]) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::size_t CallKeyHash::operator()(const CallKey& key) const {
  std::uint64_t hash = 0x9e3779b97f4a7c15U;
  for (std::size_t i = 0; i < CallKey::kWords; i += 2) {
    std::uint64_t two = 0;
    std::memcpy(&two, &key.words[i], sizeof(two));
    hash = (hash ^ two) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32;
  }
  return hash;
}

bool ReadKey(const CudnnApi& api, const CallDescriptors& d, CallKey* key) {
  std::int32_t* const w = key->words.data();
  w[kOp] = static_cast<std::int32_t>(d.op);
  std::memcpy(w + kLayer, &d.layer, sizeof(d.layer));
  if (!ReadTensor(api, d.input, w + kInput) ||
      !ReadTensor(api, d.output, w + kOutput)) {
    return false;
  }
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int rank = 0;
  if (api.GetFilterNdDescriptor(d.filter, kMaxDims, &type, &format, &rank,
                                w + kFilter + 3) != CUDNN_STATUS_SUCCESS) {
    return false;
  }
  w[kFilter] = type;
  w[kFilter + 1] = format;
  w[kFilter + 2] = rank;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 0;
  if (api.GetConvolutionNdDescriptor(
          d.convolution, 3, &rank, w + kConvolution + 1, w + kConvolution + 4,
          w + kConvolution + 7, &mode, &type) != CUDNN_STATUS_SUCCESS ||
      api.GetConvolutionMathType(d.convolution, &math) !=
          CUDNN_STATUS_SUCCESS ||
      api.GetConvolutionGroupCount(d.convolution, &groups) !=
          CUDNN_STATUS_SUCCESS) {
    return false;
  }
  w[kConvolution] = rank;
  w[kMode] = mode;
  w[kComputeType] = type;
  w[kMathType] = math;
  w[kGroups] = groups;
  return true;
}

Result<CallShape> ShapeOf(const CallKey& key) {
  const std::int32_t* const w = key.words.data();
  const int rank = w[kInput + 1];
  const int spatial = rank - 2;
  if ((spatial != 2 && spatial != 3) || w[kConvolution] != spatial ||
      w[kFilter + 2] != rank || w[kOutput + 1] != rank) {
    return Fail(Code::kUnimplemented, "{} dimensions", rank);
  }
  if (w[kInput] != w[kFilter] || w[kInput] != w[kOutput]) {
    return Fail(Code::kUnimplemented, "tensors of different types");
  }
  if (w[kMode] != CUDNN_CROSS_CORRELATION) {
    return Fail(Code::kUnimplemented, "a flipped filter");
  }
  CallShape shape;
  ConvProblem& problem = shape.problem;
  problem.op = static_cast<ConvOp>(w[kOp]);
  UCUDNN_ASSIGN_OR_RETURN(
      problem.precision,
      PrecisionOf(static_cast<cudnnDataType_t>(w[kInput]),
                  static_cast<cudnnDataType_t>(w[kComputeType]),
                  static_cast<cudnnMathType_t>(w[kMathType])));
  switch (w[kFilter + 1]) {
    case CUDNN_TENSOR_NCHW:
      problem.layout = Layout::kNchw;
      break;
    case CUDNN_TENSOR_NHWC:
      problem.layout = Layout::kNhwc;
      break;
    default:
      return Fail(Code::kUnimplemented, "a vectorised layout");
  }
  ConvGeometry& g = problem.geometry;
  g.spatial_dims = spatial;
  g.channels = w[kInput + 3];
  g.filters = w[kFilter + 3];
  g.groups = w[kGroups];
  const auto extents = static_cast<std::size_t>(spatial);
  for (std::size_t i = 0; i < extents; ++i) {
    const std::size_t to = 3 - extents + i;
    g.input[to] = w[kInput + 4 + i];
    g.filter[to] = w[kFilter + 5 + i];
    g.padding[to] = w[kConvolution + 1 + i];
    g.stride[to] = w[kConvolution + 4 + i];
    g.dilation[to] = w[kConvolution + 7 + i];
  }
  if (Status valid = Validate(g); !valid) {
    return Fail(Code::kUnimplemented, "{}", valid.error().message);
  }
  if (w[kFilter + 4] * g.groups != g.channels) {
    return Fail(Code::kUnimplemented, "a filter of {} channels for {}",
                w[kFilter + 4] * g.groups, g.channels);
  }
  shape.batch = BatchSize(w[kInput + 2]);
  auto packed = ShapesOf(problem, shape.batch);
  if (!packed) {
    return Fail(Code::kUnimplemented, "{}", packed.error().message);
  }
  if (!IsShape(w + kInput, packed->input) ||
      !IsShape(w + kOutput, packed->output)) {
    return Fail(Code::kUnimplemented, "tensors that are not packed as {}",
                Name(problem.layout));
  }
  return shape;
}

}  // namespace ucudnn::cudnn
