#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/onnx/model.h"
#include "base/onnx/rule.h"

namespace ucudnn::rules {
namespace {

using onnx::TensorProto;

// An extent that was computed; kInvalidArgument if it is no count.
Result<std::int64_t> Extent(OnnxNumber extent) {
  if (!(extent >= 0 && extent <= static_cast<OnnxNumber>(kMaxTensorBytes))) {
    return Fail(Code::kInvalidArgument, "an extent of its output would be {}",
                extent);
  }
  return static_cast<std::int64_t>(extent);
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

}  // namespace

Types One(const OnnxOperation& op, TensorShape shape) {
  return {{op.types[0]->element, std::move(shape)}};
}

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
  UCUDNN_ASSIGN_OR_RETURN(const std::size_t axis, op.Axis(1));
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
  UCUDNN_ASSIGN_OR_RETURN(const std::size_t axis, op.Axis(0));
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
  UCUDNN_ASSIGN_OR_RETURN(const std::size_t axis, op.Axis(0));
  const auto place = shape.begin() + std::ptrdiff_t(axis);
  const auto rest = shape.erase(place);
  shape.insert(rest, op.Shape(1).begin(), op.Shape(1).end());
  return One(op, std::move(shape));
}

Result<Types> GatherElements(const OnnxOperation& op) {
  return One(op, op.Shape(1));
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

}  // namespace ucudnn::rules
