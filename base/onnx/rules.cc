#include "base/onnx/rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/onnx/conv.h"
#include "base/onnx/model.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using onnx::TensorProto;
using Types = std::vector<OnnxType>;

// An extent that was computed; kInvalidArgument if it is no count.
Result<std::int64_t> Extent(OnnxNumber extent) {
  if (!(extent >= 0 && extent <= static_cast<OnnxNumber>(kMaxTensorBytes))) {
    return Fail(Code::kInvalidArgument, "an extent of its output would be {}",
                extent);
  }
  return static_cast<std::int64_t>(extent);
}

Types One(const OnnxOperation& op, TensorShape shape) {
  return {{op.types[0]->element, std::move(shape)}};
}

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
  UCUDNN_ASSIGN_OR_RETURN(
      const std::size_t axis,
      AxisOf(IntegerAttribute(op.node, "axis", -1), rows.shape.size()));
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

Result<TensorShape> Joined(const TensorShape& a, const TensorShape& b) {
  TensorShape joined(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 1; i <= joined.size(); ++i) {
    const std::int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return Fail(Code::kInvalidArgument,
                  "its operands of the shapes [{}] and [{}] do not match",
                  fmt::join(a, ", "), fmt::join(b, ", "));
    }
    joined[joined.size() - i] = x == 1 ? y : x;
  }
  return joined;
}

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
  UCUDNN_ASSIGN_OR_RETURN(TensorShape shape,
                          PoolingOutput(op.node, op.Shape(0)));
  return Types{{op.types[0]->element, shape}, {TensorProto::INT64, shape}};
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

// The axes that a node is given; all of them if it is given none.
Result<std::vector<bool>> AxesOf(const OnnxOperation& op, std::size_t input) {
  const std::size_t rank = op.Shape(0).size();
  UCUDNN_ASSIGN_OR_RETURN(const auto axes, op.Integers("axes", input));
  std::vector<bool> reduced(rank, !axes || axes->empty());
  if (!axes) return reduced;
  for (const std::int64_t axis : *axes) {
    UCUDNN_ASSIGN_OR_RETURN(const std::size_t place, AxisOf(axis, rank));
    reduced[place] = true;
  }
  return reduced;
}

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
  UCUDNN_ASSIGN_OR_RETURN(
      const std::size_t axis,
      AxisOf(IntegerAttribute(op.node, "axis", 0), axes.size()));
  axes[axis] = true;
  return Types{{TensorProto::INT64, Reduced(op, axes)}};
}

Result<Types> TopK(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(
      const std::size_t axis,
      AxisOf(IntegerAttribute(op.node, "axis", -1), op.Shape(0).size()));
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

// --- Other views of the same elements.

Result<Types> Flatten(const OnnxOperation& op) {
  const TensorShape& shape = op.Shape(0);
  const std::int64_t axis = IntegerAttribute(op.node, "axis", 1);
  std::size_t place = shape.size();
  if (axis != std::ssize(shape)) {
    UCUDNN_ASSIGN_OR_RETURN(place, AxisOf(axis, shape.size()));
  }
  const auto middle = shape.begin() + std::ptrdiff_t(place);
  return One(op, {ElementsOf({shape.begin(), middle}),
                  ElementsOf({middle, shape.end()})});
}

Result<Types> Reshape(const OnnxOperation& op) {
  const TensorShape& from = op.Shape(0);
  UCUDNN_ASSIGN_OR_RETURN(const auto given, op.Integers("shape", 1));
  if (!given) return Fail(Code::kInvalidArgument, "it lacks a shape");
  const bool zeros = IntegerAttribute(op.node, "allowzero", 0) != 0;
  TensorShape to = *given;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !zeros) to[i] = i < from.size() ? from[i] : -2;
    if (to[i] == -1 && !open) {
      open = i;
      to[i] = 1;
    }
  }
  const std::int64_t elements = ElementsOf(from);
  const auto others = CheckedProduct(to, 1, kMaxTensorBytes);
  if (open && others && *others > 0) to[*open] = elements / *others;
  if (CheckedProduct(to, 1, kMaxTensorBytes) != elements) {
    return Fail(Code::kInvalidArgument,
                "it gives [{}] the shape [{}], which has another number of "
                "elements; does the model hold a fixed batch? Export it with "
                "a symbolic one",
                fmt::join(from, ", "), fmt::join(*given, ", "));
  }
  return One(op, std::move(to));
}

Result<Types> Squeeze(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<bool> axes, AxesOf(op, 1));
  const bool given = op.Has(1) || FindAttribute(op.node, "axes") != nullptr;
  TensorShape shape;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t extent = op.Shape(0)[i];
    if (given && axes[i] && extent != 1) {
      return Fail(Code::kInvalidArgument,
                  "it removes axis {}, which has {} elements", i, extent);
    }
    if (!axes[i] || extent != 1) shape.push_back(extent);
  }
  return One(op, std::move(shape));
}

Result<Types> Unsqueeze(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(const auto axes, op.Integers("axes", 1));
  if (!axes) return Fail(Code::kInvalidArgument, "it lacks its axes");
  const std::size_t rank = op.Shape(0).size() + axes->size();
  std::vector<bool> added(rank);
  for (const std::int64_t axis : *axes) {
    UCUDNN_ASSIGN_OR_RETURN(const std::size_t place, AxisOf(axis, rank));
    if (added[place]) {
      return Fail(Code::kInvalidArgument, "it adds axis {} twice", axis);
    }
    added[place] = true;
  }
  TensorShape shape;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    shape.push_back(added[i] ? 1 : op.Shape(0)[next++]);
  }
  return One(op, std::move(shape));
}

Result<Types> Transpose(const OnnxOperation& op) {
  const TensorShape& from = op.Shape(0);
  TensorShape to(from.rbegin(), from.rend());
  const onnx::AttributeProto* perm = FindAttribute(op.node, "perm");
  if (perm == nullptr) return One(op, std::move(to));
  std::vector<std::int64_t> sorted(perm->ints().begin(), perm->ints().end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::int64_t> expected(from.size());
  std::iota(expected.begin(), expected.end(), 0);
  if (sorted != expected) {
    return Fail(Code::kInvalidArgument,
                "its axes [{}] are not those of {} dimensions",
                fmt::join(perm->ints(), ", "), from.size());
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = from[static_cast<std::size_t>(perm->ints(static_cast<int>(i)))];
  }
  return One(op, std::move(to));
}

// DepthToSpace, and SpaceToDepth.
Result<Types> Blocks(const OnnxOperation& op) {
  TensorShape shape = op.Shape(0);
  const std::int64_t block = IntegerAttribute(op.node, "blocksize", 1);
  const bool to_space = op.node.op_type() == "DepthToSpace";
  const auto divides = [&](std::int64_t by, std::int64_t extent) {
    return by > 0 && extent % by == 0;
  };
  // Larger blocks divide no extent, and could overflow.
  const std::int64_t area = block < (1 << 16) ? block * block : 0;
  if (shape.size() != 4 || !(to_space ? divides(area, shape[1])
                                      : area > 0 && divides(block, shape[2]) &&
                                            divides(block, shape[3]))) {
    return Fail(Code::kInvalidArgument,
                "blocks of {} x {} do not divide its operand [{}]", block,
                block, fmt::join(shape, ", "));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      shape[1], to_space ? Extent(OnnxNumber(shape[1] / area))
                         : Extent(OnnxNumber(shape[1]) * OnnxNumber(area)));
  for (const std::size_t i : {2, 3}) {
    UCUDNN_ASSIGN_OR_RETURN(
        shape[i], to_space ? Extent(OnnxNumber(shape[i]) * OnnxNumber(block))
                           : Extent(OnnxNumber(shape[i] / block)));
  }
  return One(op, std::move(shape));
}

// --- Parts, and what is put together.

Result<Types> Concat(const OnnxOperation& op) {
  TensorShape shape = op.Shape(0);
  UCUDNN_ASSIGN_OR_RETURN(
      const std::size_t axis,
      AxisOf(IntegerAttribute(op.node, "axis", 1), shape.size()));
  OnnxNumber sum = 0;
  for (std::size_t i = 0; i < op.types.size(); ++i) {
    if (!op.Has(i)) continue;
    TensorShape other = op.Shape(i);
    if (other.size() == shape.size()) {
      sum += OnnxNumber(other[axis]);
      other[axis] = shape[axis];
    }
    if (other != shape) {
      return Fail(Code::kInvalidArgument,
                  "its operands of the shapes [{}] and [{}] do not match on "
                  "all axes but {}",
                  fmt::join(shape, ", "), fmt::join(op.Shape(i), ", "), axis);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(shape[axis], Extent(sum));
  return One(op, std::move(shape));
}

Result<Types> Split(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(
      const std::size_t axis,
      AxisOf(IntegerAttribute(op.node, "axis", 0), op.Shape(0).size()));
  const std::int64_t extent = op.Shape(0)[axis];
  const std::int64_t outputs = op.node.output_size();
  UCUDNN_ASSIGN_OR_RETURN(auto parts, op.Integers("split", 1));
  if (!parts) {
    // Equal ones, of which the last may be smaller.
    parts.emplace();
    const std::int64_t each = (extent + outputs - 1) / outputs;
    std::int64_t rest = extent;
    for (std::int64_t i = 0; i < outputs; ++i) {
      parts->push_back(std::min(each, rest));
      rest -= parts->back();
    }
  }
  const OnnxNumber sum =
      std::accumulate(parts->begin(), parts->end(), OnnxNumber(0));
  if (std::ssize(*parts) != outputs || sum != OnnxNumber(extent) ||
      std::any_of(parts->begin(), parts->end(),
                  [](std::int64_t part) { return part < 0; })) {
    return Fail(Code::kInvalidArgument,
                "it splits {} elements into [{}] for {} outputs", extent,
                fmt::join(*parts, ", "), outputs);
  }
  Types types(parts->size(), *op.types[0]);
  for (std::size_t i = 0; i < types.size(); ++i) {
    types[i].shape[axis] = (*parts)[i];
  }
  return types;
}

Result<Types> Slice(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<OnnxSlice> slices, SlicesOf(op));
  TensorShape shape;
  for (const OnnxSlice& slice : slices) shape.push_back(slice.count);
  return One(op, std::move(shape));
}

Result<Types> Gather(const OnnxOperation& op) {
  TensorShape shape = op.Shape(0);
  UCUDNN_ASSIGN_OR_RETURN(
      const std::size_t axis,
      AxisOf(IntegerAttribute(op.node, "axis", 0), shape.size()));
  const auto place = shape.begin() + std::ptrdiff_t(axis);
  const auto rest = shape.erase(place);
  shape.insert(rest, op.Shape(1).begin(), op.Shape(1).end());
  return One(op, std::move(shape));
}

Result<Types> GatherElements(const OnnxOperation& op) {
  return One(op, op.Shape(1));
}

// The axes that an input or attribute names; all if it does not.
Result<std::vector<std::size_t>> NamedAxes(
    const std::optional<std::vector<std::int64_t>>& axes, std::size_t rank) {
  std::vector<std::size_t> places(rank);
  std::iota(places.begin(), places.end(), 0);
  if (!axes) return places;
  places.clear();
  for (const std::int64_t axis : *axes) {
    UCUDNN_ASSIGN_OR_RETURN(const std::size_t place, AxisOf(axis, rank));
    places.push_back(place);
  }
  return places;
}

Result<Types> Pad(const OnnxOperation& op) {
  TensorShape shape = op.Shape(0);
  UCUDNN_ASSIGN_OR_RETURN(const auto pads,
                          op.Integers(op.opset < 2 ? "paddings" : "pads", 1));
  std::optional<std::vector<std::int64_t>> given;
  if (op.Has(3)) {
    UCUDNN_ASSIGN_OR_RETURN(given, op.Integers(3));
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::size_t> axes,
                          NamedAxes(given, shape.size()));
  if (!pads || pads->size() != 2 * axes.size()) {
    return Fail(Code::kInvalidArgument, "it has {} pads; {} are expected",
                pads ? pads->size() : 0, 2 * axes.size());
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    UCUDNN_ASSIGN_OR_RETURN(
        shape[axes[i]],
        Extent(OnnxNumber(shape[axes[i]]) + OnnxNumber((*pads)[i]) +
               OnnxNumber((*pads)[i + axes.size()])));
  }
  return One(op, std::move(shape));
}

// The factor of every axis that `sizes` are for, if the aspect ratio is kept.
std::optional<OnnxNumber> CommonFactor(const OnnxOperation& op,
                                       const std::vector<std::size_t>& axes,
                                       const std::vector<std::int64_t>& sizes) {
  const std::string policy =
      TextAttribute(op.node, "keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || axes.empty()) return std::nullopt;
  std::optional<OnnxNumber> factor;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const OnnxNumber own =
        OnnxNumber(sizes[i]) / OnnxNumber(op.Shape(0)[axes[i]]);
    factor = !factor                  ? own
             : policy == "not_larger" ? std::min(*factor, own)
                                      : std::max(*factor, own);
  }
  return factor;
}

// Resize and Upsample, whose inputs are data, [roi,] scales and sizes.
Result<Types> Resize(const OnnxOperation& op) {
  TensorShape shape = op.Shape(0);
  const bool upsample = op.node.op_type() == "Upsample";
  const std::size_t scales_input = upsample || op.opset < 11 ? 1 : 2;
  if (TextAttribute(op.node, "coordinate_transformation_mode", "") ==
      "tf_crop_and_resize") {
    return Fail(Code::kUnimplemented,
                "it crops (tf_crop_and_resize); resizing of whole tensors is "
                "accepted");
  }
  std::optional<std::vector<std::int64_t>> given;
  if (const auto* axes = FindAttribute(op.node, "axes")) {
    given.emplace(axes->ints().begin(), axes->ints().end());
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::size_t> axes,
                          NamedAxes(given, shape.size()));
  const auto expect = [&](std::size_t count) -> Status {
    if (count == axes.size()) return {};
    return Fail(Code::kInvalidArgument,
                "it has {} scales or sizes; {} are expected", count,
                axes.size());
  };
  if (op.Has(3) && !op.Shape(3).empty() && op.Shape(3)[0] > 0) {
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::int64_t> sizes,
                            op.Integers(3));
    UCUDNN_RETURN_IF_ERROR(expect(sizes.size()));
    const std::optional<OnnxNumber> factor = CommonFactor(op, axes, sizes);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      UCUDNN_ASSIGN_OR_RETURN(
          shape[axes[i]],
          Extent(factor
                     ? std::floor(*factor * OnnxNumber(shape[axes[i]]) + 0.5L)
                     : OnnxNumber(sizes[i])));
    }
    return One(op, std::move(shape));
  }
  OnnxNumbers scales;
  if (const auto* attribute = FindAttribute(op.node, "scales")) {
    scales.assign(attribute->floats().begin(), attribute->floats().end());
  } else if (!op.Has(scales_input)) {
    return Fail(Code::kInvalidArgument, "it lacks its scales and sizes");
  } else if (op.numbers[scales_input] == nullptr) {
    return op.Integers(scales_input).map([](auto) { return Types(); });
  } else {
    scales = *op.numbers[scales_input];
  }
  UCUDNN_RETURN_IF_ERROR(expect(scales.size()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    // In single precision, as runtimes compute it.
    UCUDNN_ASSIGN_OR_RETURN(
        shape[axes[i]], Extent(std::floor(static_cast<float>(shape[axes[i]]) *
                                          static_cast<float>(scales[i]))));
  }
  return One(op, std::move(shape));
}

Result<Types> Expand(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(const TensorShape to, op.Integers(1));
  for (const std::int64_t extent : to) {
    UCUDNN_RETURN_IF_ERROR(Extent(OnnxNumber(extent)));
  }
  UCUDNN_ASSIGN_OR_RETURN(TensorShape shape, Joined(op.Shape(0), to));
  return One(op, std::move(shape));
}

Result<Types> Tile(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(const auto repeats, op.Integers(1));
  TensorShape shape = op.Shape(0);
  if (repeats.size() != shape.size()) {
    return Fail(Code::kInvalidArgument, "it has {} repeats; {} are expected",
                repeats.size(), shape.size());
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    UCUDNN_ASSIGN_OR_RETURN(
        shape[i], Extent(OnnxNumber(shape[i]) * OnnxNumber(repeats[i])));
  }
  return One(op, std::move(shape));
}

// --- Shapes and constants.

Result<Types> Shape(const OnnxOperation& op) {
  const std::int64_t rank = std::ssize(op.Shape(0));
  const auto place = [&](std::string_view name, std::int64_t absent) {
    std::int64_t index = IntegerAttribute(op.node, name, absent);
    if (index < 0) index += rank;
    return std::clamp<std::int64_t>(index, 0, rank);
  };
  const std::int64_t count = place("end", rank) - place("start", 0);
  return Types{{TensorProto::INT64, {std::max<std::int64_t>(count, 0)}}};
}

Result<Types> Size(const OnnxOperation&) {
  return Types{{TensorProto::INT64, {}}};
}

Result<Types> Constant(const OnnxOperation& op) {
  for (const onnx::AttributeProto& attribute : op.node.attribute()) {
    if (attribute.name() == "value" && attribute.has_t()) {
      const TensorProto& t = attribute.t();
      return Types{{t.data_type(), {t.dims().begin(), t.dims().end()}}};
    }
    if (attribute.name() == "value_int") {
      return Types{{TensorProto::INT64, {}}};
    }
    if (attribute.name() == "value_ints") {
      return Types{{TensorProto::INT64, {attribute.ints_size()}}};
    }
    if (attribute.name() == "value_float") {
      return Types{{TensorProto::FLOAT, {}}};
    }
    if (attribute.name() == "value_floats") {
      return Types{{TensorProto::FLOAT, {attribute.floats_size()}}};
    }
  }
  return Fail(Code::kInvalidArgument,
              "it lacks its value; a tensor, integers or floats are accepted");
}

Result<Types> ConstantOfShape(const OnnxOperation& op) {
  UCUDNN_ASSIGN_OR_RETURN(TensorShape shape, op.Integers(0));
  for (const std::int64_t extent : shape) {
    UCUDNN_RETURN_IF_ERROR(Extent(OnnxNumber(extent)));
  }
  const onnx::AttributeProto* value = FindAttribute(op.node, "value");
  return Types{
      {value == nullptr ? int{TensorProto::FLOAT} : value->t().data_type(),
       std::move(shape)}};
}

Result<Types> Range(const OnnxOperation& op) {
  for (const std::size_t i : {0, 1, 2}) {
    if (op.numbers[i] == nullptr) {
      return op.Integers(i).map([](auto) { return Types(); });
    }
    if (op.numbers[i]->size() != 1) {
      return Fail(Code::kInvalidArgument, "its operand {} is not a scalar",
                  i + 1);
    }
  }
  const OnnxNumber step = op.numbers[2]->front();
  if (step == 0) return Fail(Code::kInvalidArgument, "its step is 0");
  const OnnxNumber count =
      std::ceil((op.numbers[1]->front() - op.numbers[0]->front()) / step);
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t extent,
                          Extent(std::max<OnnxNumber>(count, 0)));
  return One(op, {extent});
}

using Rule = Result<Types> (*)(const OnnxOperation&);

struct OperatorRule {
  std::string_view op_type;
  Rule rule;
  std::size_t operands;  // that it must have
};
constexpr std::array kRules = {
    OperatorRule{"Abs", Same, 1},
    OperatorRule{"Add", Elementwise, 2},
    OperatorRule{"And", ComparesTwo, 2},
    OperatorRule{"ArgMax", ArgReduction, 1},
    OperatorRule{"ArgMin", ArgReduction, 1},
    OperatorRule{"AveragePool", Pooling, 1},
    OperatorRule{"BatchNormalization", BatchNormalization, 5},
    OperatorRule{"Cast", Cast, 1},
    OperatorRule{"CastLike", Cast, 2},
    OperatorRule{"Ceil", Same, 1},
    OperatorRule{"Celu", Same, 1},
    OperatorRule{"Clip", Same, 1},
    OperatorRule{"Concat", Concat, 1},
    OperatorRule{"Constant", Constant, 0},
    OperatorRule{"ConstantOfShape", ConstantOfShape, 1},
    OperatorRule{"Conv", Convolution, 2},
    OperatorRule{"ConvTranspose", Convolution, 2},
    OperatorRule{"Cos", Same, 1},
    OperatorRule{"CumSum", Same, 1},
    OperatorRule{"DepthToSpace", Blocks, 1},
    OperatorRule{"DequantizeLinear", Dequantize, 2},
    OperatorRule{"Div", Elementwise, 2},
    OperatorRule{"Dropout", Dropout, 1},
    OperatorRule{"Elu", Same, 1},
    OperatorRule{"Equal", ComparesTwo, 2},
    OperatorRule{"Erf", Same, 1},
    OperatorRule{"Exp", Same, 1},
    OperatorRule{"Expand", Expand, 2},
    OperatorRule{"Flatten", Flatten, 1},
    OperatorRule{"Floor", Same, 1},
    OperatorRule{"Gather", Gather, 2},
    OperatorRule{"GatherElements", GatherElements, 2},
    OperatorRule{"Gelu", Same, 1},
    OperatorRule{"Gemm", Gemm, 2},
    OperatorRule{"GlobalAveragePool", GlobalPooling, 1},
    OperatorRule{"GlobalLpPool", GlobalPooling, 1},
    OperatorRule{"GlobalMaxPool", GlobalPooling, 1},
    OperatorRule{"Greater", ComparesTwo, 2},
    OperatorRule{"GreaterOrEqual", ComparesTwo, 2},
    OperatorRule{"GroupNormalization", Same, 1},
    OperatorRule{"HardSigmoid", Same, 1},
    OperatorRule{"HardSwish", Same, 1},
    OperatorRule{"Hardmax", Same, 1},
    OperatorRule{"Identity", Same, 1},
    OperatorRule{"InstanceNormalization", Same, 1},
    OperatorRule{"IsNaN", Compares, 1},
    OperatorRule{"LRN", Same, 1},
    OperatorRule{"LayerNormalization", LayerNormalization, 1},
    OperatorRule{"LeakyRelu", Same, 1},
    OperatorRule{"Less", ComparesTwo, 2},
    OperatorRule{"LessOrEqual", ComparesTwo, 2},
    OperatorRule{"Log", Same, 1},
    OperatorRule{"LogSoftmax", Same, 1},
    OperatorRule{"LpNormalization", Same, 1},
    OperatorRule{"MatMul", MatMul, 2},
    OperatorRule{"Max", Elementwise, 1},
    OperatorRule{"MaxPool", Pooling, 1},
    OperatorRule{"Mean", Elementwise, 1},
    OperatorRule{"Min", Elementwise, 1},
    OperatorRule{"Mish", Same, 1},
    OperatorRule{"Mod", Elementwise, 2},
    OperatorRule{"Mul", Elementwise, 2},
    OperatorRule{"Neg", Same, 1},
    OperatorRule{"Not", Compares, 1},
    OperatorRule{"Or", ComparesTwo, 2},
    OperatorRule{"PRelu", Same, 1},
    OperatorRule{"Pad", Pad, 1},
    OperatorRule{"Pow", Elementwise, 2},
    OperatorRule{"QuantizeLinear", Quantize, 2},
    OperatorRule{"RMSNormalization", Same, 1},
    OperatorRule{"Range", Range, 3},
    OperatorRule{"Reciprocal", Same, 1},
    OperatorRule{"ReduceL1", Reduction, 1},
    OperatorRule{"ReduceL2", Reduction, 1},
    OperatorRule{"ReduceLogSum", Reduction, 1},
    OperatorRule{"ReduceLogSumExp", Reduction, 1},
    OperatorRule{"ReduceMax", Reduction, 1},
    OperatorRule{"ReduceMean", Reduction, 1},
    OperatorRule{"ReduceMin", Reduction, 1},
    OperatorRule{"ReduceProd", Reduction, 1},
    OperatorRule{"ReduceSum", Reduction, 1},
    OperatorRule{"ReduceSumSquare", Reduction, 1},
    OperatorRule{"Relu", Same, 1},
    OperatorRule{"Reshape", Reshape, 1},
    OperatorRule{"Resize", Resize, 1},
    OperatorRule{"Round", Same, 1},
    OperatorRule{"Selu", Same, 1},
    OperatorRule{"Shape", Shape, 1},
    OperatorRule{"Sigmoid", Same, 1},
    OperatorRule{"Sign", Same, 1},
    OperatorRule{"Sin", Same, 1},
    OperatorRule{"Size", Size, 1},
    OperatorRule{"Slice", Slice, 1},
    OperatorRule{"Softmax", Same, 1},
    OperatorRule{"Softplus", Same, 1},
    OperatorRule{"Softsign", Same, 1},
    OperatorRule{"SpaceToDepth", Blocks, 1},
    OperatorRule{"Split", Split, 1},
    OperatorRule{"Sqrt", Same, 1},
    OperatorRule{"Squeeze", Squeeze, 1},
    OperatorRule{"Sub", Elementwise, 2},
    OperatorRule{"Sum", Elementwise, 1},
    OperatorRule{"Swish", Same, 1},
    OperatorRule{"Tanh", Same, 1},
    OperatorRule{"ThresholdedRelu", Same, 1},
    OperatorRule{"Tile", Tile, 2},
    OperatorRule{"TopK", TopK, 1},
    OperatorRule{"Transpose", Transpose, 1},
    OperatorRule{"Trilu", Same, 1},
    OperatorRule{"Unsqueeze", Unsqueeze, 1},
    OperatorRule{"Upsample", Resize, 1},
    OperatorRule{"Where", Where, 3},
    OperatorRule{"Xor", ComparesTwo, 2}};

}  // namespace

Result<std::optional<std::vector<OnnxType>>> InferOutputs(
    const OnnxOperation& operation) {
  const auto* known =
      std::find_if(kRules.begin(), kRules.end(), [&](const OperatorRule& rule) {
        return rule.op_type == operation.node.op_type();
      });
  if (known == kRules.end() || !IsStandard(operation.node)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < known->operands; ++i) {
    if (operation.Has(i)) continue;
    return Fail(Code::kInvalidArgument,
                "it lacks its input {}; {} or more are expected", i + 1,
                known->operands);
  }
  UCUDNN_ASSIGN_OR_RETURN(Types types, known->rule(operation));
  const auto outputs = static_cast<std::size_t>(operation.node.output_size());
  if (outputs > types.size()) {
    return Fail(Code::kInvalidArgument, "it has {} outputs; {} are accepted",
                outputs, types.size());
  }
  return types;
}

}  // namespace ucudnn
