#include "base/onnx/operands.h"

#include <array>
#include <string_view>

namespace ucudnn {
namespace {

// An operand and the fewest dimensions it must have.
struct Rank {
  std::string_view op_type;
  std::size_t operand;
  std::size_t min;
};
constexpr std::array kRanks = {Rank{"GRU", 0, 3}, Rank{"LSTM", 0, 3},
                               Rank{"RNN", 0, 3}, Rank{"GatherND", 0, 1},
                               Rank{"GatherND", 1, 1}};

}  // namespace

Status CheckOperands(const onnx::NodeProto& node,
                     const std::vector<const OnnxType*>& inputs) {
  if (node.op_type() == "STFT") {
    return Fail(Code::kUnimplemented, "networks without it are accepted");
  }
  for (const Rank& rank : kRanks) {
    if (rank.op_type != node.op_type()) continue;
    const OnnxType* type =
        rank.operand < inputs.size() ? inputs[rank.operand] : nullptr;
    if (type == nullptr || type->shape.size() < rank.min) {
      return Fail(Code::kInvalidArgument,
                  "its input {} has {} dimensions; {} or more are accepted",
                  rank.operand + 1, type == nullptr ? 0 : type->shape.size(),
                  rank.min);
    }
  }
  if (node.op_type() == "GatherND") {
    const std::int64_t last = inputs[1]->shape.back();
    const std::int64_t batch = IntegerAttribute(node, "batch_dims", 0);
    const std::int64_t rank = std::ssize(inputs[0]->shape);
    if (batch < 0 || batch > rank || last < 0 || last > rank - batch) {
      return Fail(Code::kInvalidArgument,
                  "its indices are lists of {} after {} batch dimensions, into "
                  "{} dimensions",
                  last, batch, rank);
    }
  }
  return {};
}

}  // namespace ucudnn
