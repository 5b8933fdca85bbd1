#include "base/onnx/checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/onnx/model.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using onnx::AttributeProto;
using onnx::NodeProto;
using onnx::TensorProto;

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 31;

// The bounds of attributes that shape inference divides by or adds up.
struct Bounds {
  std::string_view name;
  std::int64_t min;
};
constexpr std::array kBounds = {
    Bounds{"strides", 1},        Bounds{"dilations", 1},
    Bounds{"kernel_shape", 1},   Bounds{"output_shape", 1},
    Bounds{"output_padding", 0}, Bounds{"pads", -kMaxExtent},
    Bounds{"group", 1},          Bounds{"blocksize", 1}};

Status CheckData(const TensorProto& tensor) {
  const auto element = ElementOf(tensor.data_type());
  const auto bytes =
      element ? CheckedProduct(tensor.dims(), element->bytes, kMaxTensorBytes)
              : std::optional<std::int64_t>();
  if (!bytes) {
    return Fail(Code::kInvalidArgument,
                "its shape [{}] of element type {} cannot be counted",
                fmt::join(tensor.dims(), ", "), tensor.data_type());
  }
  if (tensor.has_raw_data() &&
      *bytes != static_cast<std::int64_t>(tensor.raw_data().size())) {
    return Fail(Code::kInvalidArgument,
                "it has {} bytes of data; {} are expected",
                tensor.raw_data().size(), *bytes);
  }
  return {};
}

// Refuses values that shape inference must not see.
Status CheckAttribute(const AttributeProto& attribute) {
  if (attribute.has_g() || attribute.graphs_size() > 0) {
    return Fail(Code::kUnimplemented,
                "it holds a subgraph; networks without control flow are "
                "accepted");
  }
  if (attribute.has_sparse_tensor() || attribute.sparse_tensors_size() > 0) {
    return Fail(Code::kUnimplemented,
                "it holds a sparse tensor; dense ones are accepted");
  }
  if (attribute.has_t()) UCUDNN_RETURN_IF_ERROR(CheckRead(attribute.t()));
  for (const TensorProto& tensor : attribute.tensors()) {
    UCUDNN_RETURN_IF_ERROR(CheckRead(tensor));
  }
  const auto bounds =
      std::find_if(kBounds.begin(), kBounds.end(),
                   [&](const Bounds& b) { return b.name == attribute.name(); });
  if (bounds == kBounds.end()) return {};
  std::vector<std::int64_t> values(attribute.ints().begin(),
                                   attribute.ints().end());
  // An omitted number is 0.
  if (attribute.has_i() || attribute.type() == AttributeProto::INT) {
    values.push_back(attribute.i());
  }
  for (const std::int64_t value : values) {
    if (value < bounds->min || value > kMaxExtent) {
      return Fail(Code::kInvalidArgument,
                  "attribute '{}' holds {}; {} to {} is accepted", bounds->name,
                  value, bounds->min, kMaxExtent);
    }
  }
  return {};
}

// Convolutions that are not of floating-point tensors, and others that plans
// cannot contain.
constexpr std::array<std::string_view, 3> kOtherConvolutions = {
    "QLinearConv", "ConvInteger", "DeformConv"};

}  // namespace

Status CheckRead(const TensorProto& tensor) {
  if (tensor.data_location() == TensorProto::EXTERNAL ||
      tensor.external_data_size() > 0) {
    return Fail(Code::kInvalidArgument,
                "its data lies in another file; data in the model is accepted");
  }
  return CheckData(tensor);
}

Status CheckNodes(const onnx::ModelProto& model) {
  std::set<std::pair<std::string, std::string>> functions;
  for (const onnx::FunctionProto& function : model.functions()) {
    functions.emplace(function.domain(), function.name());
  }
  for (const NodeProto& node : model.graph().node()) {
    if (functions.count({node.domain(), node.op_type()}) > 0) {
      return Fail(Code::kUnimplemented,
                  "{} calls a function of the model; functions are accepted "
                  "only where they are inlined",
                  Shown(node));
    }
    if (IsStandard(node) &&
        std::ranges::count(kOtherConvolutions, node.op_type()) > 0) {
      return Fail(Code::kUnimplemented,
                  "{} is a convolution that cannot be planned; Conv and "
                  "ConvTranspose are accepted{}",
                  Shown(node),
                  node.op_type() == "DeformConv"
                      ? ""
                      : ": export the model before it is quantized");
    }
    for (const AttributeProto& attribute : node.attribute()) {
      if (Status status = CheckAttribute(attribute); !status) {
        return Within(Shown(node), std::move(status).error());
      }
    }
  }
  for (const TensorProto& tensor : model.graph().initializer()) {
    if (Status status = CheckData(tensor); !status) {
      return Within(fmt::format("initializer '{}'", Excerpt(tensor.name())),
                    std::move(status).error());
    }
  }
  return {};
}

}  // namespace ucudnn
