#include "base/onnx/operands.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/limits.h"

namespace ucudnn {
namespace {

using onnx::NodeProto;
using onnx::TypeProto;

// An operand and the fewest dimensions it may have.
struct Rank {
  std::string_view op_type;
  std::size_t operand;
  int min;
};
constexpr std::array kRanks = {
    Rank{"Conv", 0, 3},          Rank{"Conv", 1, 3},
    Rank{"ConvTranspose", 0, 3}, Rank{"ConvTranspose", 1, 3},
    Rank{"ConvInteger", 0, 3},   Rank{"ConvInteger", 1, 3},
    Rank{"QLinearConv", 0, 3},   Rank{"QLinearConv", 3, 3},
    Rank{"Gemm", 0, 2},          Rank{"Gemm", 1, 2},
    Rank{"GRU", 0, 3},           Rank{"LSTM", 0, 3},
    Rank{"RNN", 0, 3},           Rank{"GatherND", 0, 1},
    Rank{"GatherND", 1, 1},      Rank{"LayerNormalization", 0, 1},
};

constexpr std::array<std::string_view, 1> kUntrusted = {"STFT"};

int RankOf(const TypeProto& type) {
  return type.tensor_type().shape().dim_size();
}

// The value of an integer attribute.
std::int64_t Attribute(const NodeProto& node, std::string_view name,
                       std::int64_t absent) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return attribute.i();
  }
  return absent;
}

Status CheckRanks(const NodeProto& node,
                  const std::vector<const TypeProto*>& inputs) {
  for (const Rank& rank : kRanks) {
    if (rank.op_type != node.op_type()) continue;
    const TypeProto* type =
        rank.operand < inputs.size() ? inputs[rank.operand] : nullptr;
    if (type == nullptr || !IsKnown(*type)) {
      return Fail(Code::kInvalidArgument,
                  "the shape of its input {} cannot be inferred",
                  rank.operand + 1);
    }
    if (RankOf(*type) < rank.min) {
      return Fail(Code::kInvalidArgument,
                  "its input {} has {} dimensions; {} or more are accepted",
                  rank.operand + 1, RankOf(*type), rank.min);
    }
  }
  return {};
}

}  // namespace

bool IsKnown(const onnx::TensorShapeProto& shape) {
  return std::all_of(shape.dim().begin(), shape.dim().end(),
                     [](const auto& dim) { return dim.has_dim_value(); });
}

bool IsKnown(const TypeProto& type) {
  return type.tensor_type().has_shape() && IsKnown(type.tensor_type().shape());
}

Status CheckOperands(const NodeProto& node,
                     const std::vector<const TypeProto*>& inputs) {
  if (std::count(kUntrusted.begin(), kUntrusted.end(), node.op_type()) > 0) {
    return Fail(Code::kUnimplemented, "networks without it are accepted");
  }
  UCUDNN_RETURN_IF_ERROR(CheckRanks(node, inputs));
  const std::string& op = node.op_type();
  if (op == "Conv" || op == "ConvTranspose" || op == "ConvInteger") {
    if (RankOf(*inputs[0]) != RankOf(*inputs[1])) {
      return Fail(Code::kInvalidArgument,
                  "its input and filter have {} and {} dimensions; as many "
                  "each are accepted",
                  RankOf(*inputs[0]), RankOf(*inputs[1]));
    }
  }
  if (op == "LayerNormalization") {
    const std::int64_t axis = Attribute(node, "axis", -1);
    const int rank = RankOf(*inputs[0]);
    if (axis < -rank || axis >= rank) {
      return Fail(Code::kInvalidArgument,
                  "attribute 'axis' is {}; {} to {} is accepted", axis, -rank,
                  rank - 1);
    }
  }
  if (op == "GatherND") {
    const auto& indices = inputs[1]->tensor_type().shape();
    const std::int64_t last = indices.dim(indices.dim_size() - 1).dim_value();
    const std::int64_t batch = Attribute(node, "batch_dims", 0);
    const int rank = RankOf(*inputs[0]);
    if (batch < 0 || batch > rank || last < 0 || last > rank - batch) {
      return Fail(Code::kInvalidArgument,
                  "its indices are lists of {} after {} batch dimensions, into "
                  "{} dimensions",
                  last, batch, rank);
    }
  }
  return {};
}

bool MayCompute(const NodeProto& node,
                const std::vector<const onnx::TensorShapeProto*>& values) {
  std::int64_t total = 0;
  for (const auto* value : values) {
    if (value != nullptr) total += value->dim_size();
  }
  if (total > kMaxOnnxValues) return false;
  const std::string& op = node.op_type();
  if (op != "Add" && op != "Sub" && op != "Mul") return true;
  return std::none_of(values.begin(), values.end(), [](const auto* value) {
    return value != nullptr && value->dim_size() == 0;
  });
}

}  // namespace ucudnn
