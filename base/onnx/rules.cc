#include "base/onnx/rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/onnx/conv.h"
#include "base/onnx/model.h"
#include "base/onnx/rule.h"
#include "base/text.h"

namespace ucudnn {
namespace rules {
namespace {

using onnx::TensorProto;

// --- Operators that keep the shape of their first operand.

Result<Types> Same(const OnnxOperation& op) { return Types{*op.types[0]}; }

Result<Types> Compares(const OnnxOperation& op) {
  return Types{{TensorProto::BOOL, op.Shape(0)}};
}

Result<Types> Cast(const OnnxOperation& op) {
  const auto to = static_cast<int>(IntegerAttribute(op.node, "to", 0));
  return Types{{op.Has(1) ? op.types[1]->element : to, op.Shape(0)}};
}

Result<Types> Dropout(const OnnxOperation& op) {
  return Types{*op.types[0], {TensorProto::BOOL, op.Shape(0)}};
}

// Statistics have the type of the scale.
Result<Types> BatchNormalization(const OnnxOperation& op) {
  Types types(5, *op.types[1]);
  types[0] = *op.types[0];
  return types;
}

// Statistics have one element for each row that is normalised.
Result<Types> LayerNormalization(const OnnxOperation& op) {
  OnnxType rows = *op.types[0];
  UCUDNN_ASSIGN_OR_RETURN(const std::size_t axis, op.Axis(-1));
  std::fill(rows.shape.begin() + std::ptrdiff_t(axis), rows.shape.end(), 1);
  return Types{*op.types[0], rows, rows};
}

Result<Types> Quantize(const OnnxOperation& op) {
  const auto given = static_cast<int>(
      IntegerAttribute(op.node, "output_dtype", TensorProto::UINT8));
  return Types{{op.Has(2) ? op.types[2]->element : given, op.Shape(0)}};
}

Result<Types> Dequantize(const OnnxOperation& op) {
  return Types{{op.types[1]->element, op.Shape(0)}};
}

// --- Operators whose operands are repeated where they have one element.

Result<TensorShape> JoinedAll(const OnnxOperation& op) {
  // Before version 7 of the operator set, an attribute says where the second
  // operand goes.
  if (op.opset < 7) return op.Shape(0);
  TensorShape shape = op.Shape(0);
  for (std::size_t i = 1; i < op.types.size(); ++i) {
    if (!op.Has(i)) continue;
    UCUDNN_ASSIGN_OR_RETURN(shape, Joined(shape, op.Shape(i)));
  }
  return shape;
}

Result<Types> Elementwise(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(TensorShape shape, JoinedAll(op));
  return One(op, std::move(shape));
}

Result<Types> ComparesTwo(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(TensorShape shape, JoinedAll(op));
  return Types{{TensorProto::BOOL, std::move(shape)}};
}

Result<Types> Where(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(TensorShape shape, JoinedAll(op));
  return Types{{op.types[1]->element, std::move(shape)}};
}

// --- Convolutions, pooling and products.

Result<Types> Convolution(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(const PaddedConvolution convolution,
                          ConvolutionOf(op.node, op.Shape(0), op.Shape(1)));
  return One(op, convolution.output);
}

Result<Types> Pooling(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(const PooledShape pooled,
                          PoolingOf(op.node, op.Shape(0)));
  return Types{{op.types[0]->element, pooled.output},
               {TensorProto::INT64, pooled.output}};
}

Result<Types> GlobalPooling(const OnnxOperation& op) {
  TensorShape shape = op.Shape(0);
  std::fill(shape.begin() + std::min<std::ptrdiff_t>(2, std::ssize(shape)),
            shape.end(), 1);
  return One(op, std::move(shape));
}

Status CheckInner(std::int64_t a, std::int64_t b) {
  if (a == b) return {};
  return Fail(Code::kInvalidArgument,
              "it multiplies rows of {} elements by columns of {}", a, b);
}

Result<Types> Gemm(const OnnxOperation& op) {
  TensorShape a = op.Shape(0);
  TensorShape b = op.Shape(1);
  // Version 1 to 6 flattens its operand.
  if (op.opset < 7 && a.size() > 2) {
    a = {a[0], ElementsOf({a.begin() + 1, a.end()})};
  }
  if (a.size() != 2 || b.size() != 2) {
    return Fail(Code::kInvalidArgument,
                "its operands have {} and {} dimensions; 2 are accepted",
                a.size(), b.size());
  }
  if (IntegerAttribute(op.node, "transA", 0) != 0) std::swap(a[0], a[1]);
  if (IntegerAttribute(op.node, "transB", 0) != 0) std::swap(b[0], b[1]);
  UCUDNN_RETURN_IF_ERROR(CheckInner(a[1], b[0]));
  return One(op, {a[0], b[1]});
}

Result<Types> MatMul(const OnnxOperation& op) {
  TensorShape a = op.Shape(0);
  TensorShape b = op.Shape(1);
  if (a.empty() || b.empty()) {
    return Fail(Code::kInvalidArgument, "one of its operands is a scalar");
  }
  const bool row = a.size() == 1;
  const bool column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  UCUDNN_RETURN_IF_ERROR(CheckInner(a.back(), b[b.size() - 2]));
  UCUDNN_ASSIGN_OR_RETURN(TensorShape shape, Joined({a.begin(), a.end() - 2},
                                                    {b.begin(), b.end() - 2}));
  if (!row) shape.push_back(a[a.size() - 2]);
  if (!column) shape.push_back(b.back());
  return One(op, std::move(shape));
}

// --- Reductions.

TensorShape Reduced(const OnnxOperation& op, const std::vector<bool>& axes) {
  const bool kept = IntegerAttribute(op.node, "keepdims", 1) != 0;
  TensorShape shape;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i]) shape.push_back(op.Shape(0)[i]);
    if (axes[i] && kept) shape.push_back(1);
  }
  return shape;
}

Result<Types> Reduction(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<bool> axes, AxesOf(op, 1));
  if (IntegerAttribute(op.node, "noop_with_empty_axes", 0) != 0) {
    UCUDNN_ASSIGN_OR_RETURN(const auto given, op.Integers("axes", 1));
    if (!given || given->empty()) return Types{*op.types[0]};
  }
  return One(op, Reduced(op, axes));
}

Result<Types> ArgReduction(const OnnxOperation& op) {
  std::vector<bool> axes(op.Shape(0).size());
  UCUDNN_ASSIGN_OR_RETURN(const std::size_t axis, op.Axis(0));
  axes[axis] = true;
  return Types{{TensorProto::INT64, Reduced(op, axes)}};
}

Result<Types> TopK(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(const std::size_t axis, op.Axis(-1));
  std::vector<std::int64_t> k = {IntegerAttribute(op.node, "k", 0)};
  if (op.Has(1)) {
    UCUDNN_ASSIGN_OR_RETURN(k, op.Integers(1));
  }
  if (k.size() != 1 || k[0] < 0 || k[0] > op.Shape(0)[axis]) {
    return Fail(Code::kInvalidArgument, "it takes [{}] of {} elements",
                fmt::join(k, ", "), op.Shape(0)[axis]);
  }
  TensorShape shape = op.Shape(0);
  shape[axis] = k[0];
  return Types{{op.types[0]->element, shape}, {TensorProto::INT64, shape}};
}

struct OperatorRule {
  Rule rule;
  std::size_t operands;       // that each must have
  std::string_view op_types;  // separated by blanks
};
constexpr std::array kRules = {
    OperatorRule{Same, 1,
                 "Abs Ceil Celu Clip Cos CumSum Elu Erf Exp Floor Gelu "
                 "GroupNormalization HardSigmoid HardSwish Hardmax "
                 "Identity InstanceNormalization LRN LeakyRelu Log "
                 "LogSoftmax LpNormalization Mish Neg PRelu "
                 "RMSNormalization Reciprocal Relu Round Selu Sigmoid "
                 "Sign Sin Softmax Softplus Softsign Sqrt Swish Tanh "
                 "ThresholdedRelu Trilu"},
    OperatorRule{Elementwise, 2, "Add Div Mod Mul Pow Sub"},
    OperatorRule{ComparesTwo, 2,
                 "And Equal Greater GreaterOrEqual Less LessOrEqual Or "
                 "Xor"},
    OperatorRule{ArgReduction, 1, "ArgMax ArgMin"},
    OperatorRule{Pooling, 1, "AveragePool MaxPool"},
    OperatorRule{BatchNormalization, 5, "BatchNormalization"},
    OperatorRule{Cast, 1, "Cast"},
    OperatorRule{Cast, 2, "CastLike"},
    OperatorRule{Concat, 1, "Concat"},
    OperatorRule{Constant, 0, "Constant"},
    OperatorRule{ConstantOfShape, 1, "ConstantOfShape"},
    OperatorRule{Convolution, 2, "Conv ConvTranspose"},
    OperatorRule{Blocks, 1, "DepthToSpace SpaceToDepth"},
    OperatorRule{Dequantize, 2, "DequantizeLinear"},
    OperatorRule{Dropout, 1, "Dropout"},
    OperatorRule{Expand, 2, "Expand"},
    OperatorRule{Flatten, 1, "Flatten"},
    OperatorRule{Gather, 2, "Gather"},
    OperatorRule{GatherElements, 2, "GatherElements"},
    OperatorRule{Gemm, 2, "Gemm"},
    OperatorRule{GlobalPooling, 1,
                 "GlobalAveragePool GlobalLpPool GlobalMaxPool"},
    OperatorRule{Compares, 1, "IsNaN Not"},
    OperatorRule{LayerNormalization, 1, "LayerNormalization"},
    OperatorRule{MatMul, 2, "MatMul"},
    OperatorRule{Elementwise, 1, "Max Mean Min Sum"},
    OperatorRule{Pad, 1, "Pad"},
    OperatorRule{Quantize, 2, "QuantizeLinear"},
    OperatorRule{Range, 3, "Range"},
    OperatorRule{Reduction, 1,
                 "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
                 "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
                 "ReduceSumSquare"},
    OperatorRule{Reshape, 1, "Reshape"},
    OperatorRule{Resize, 1, "Resize Upsample"},
    OperatorRule{Shape, 1, "Shape"},
    OperatorRule{Size, 1, "Size"},
    OperatorRule{Slice, 1, "Slice"},
    OperatorRule{Split, 1, "Split"},
    OperatorRule{Squeeze, 1, "Squeeze"},
    OperatorRule{Tile, 2, "Tile"},
    OperatorRule{TopK, 1, "TopK"},
    OperatorRule{Transpose, 1, "Transpose"},
    OperatorRule{Unsqueeze, 1, "Unsqueeze"},
    OperatorRule{Where, 3, "Where"}};

bool HasWord(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace
}  // namespace rules

Result<std::optional<std::vector<OnnxType>>> InferOutputs(
    const OnnxOperation& operation) {
  const auto* known =
      std::ranges::find_if(rules::kRules, [&](const auto& rule) {
        return rules::HasWord(rule.op_types, operation.node.op_type());
      });
  if (known == rules::kRules.end() || !IsStandard(operation.node)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < known->operands; ++i) {
    if (operation.Has(i)) continue;
    return Fail(Code::kInvalidArgument,
                "it lacks its input {}; {} or more are expected", i + 1,
                known->operands);
  }
  UCUDNN_ASSIGN_OR_RETURN(rules::Types types, known->rule(operation));
  const auto outputs = static_cast<std::size_t>(operation.node.output_size());
  if (outputs > types.size()) {
    return Fail(Code::kInvalidArgument, "it has {} outputs; {} are accepted",
                outputs, types.size());
  }
  return types;
}

}  // namespace ucudnn
