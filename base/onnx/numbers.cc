// The values that shapes are computed from.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/limits.h"
#include "base/onnx/model.h"
#include "base/onnx/rules.h"

namespace ucudnn {
namespace {

using onnx::TensorProto;
using Found = std::optional<OnnxNumbers>;

// The number as an element of this type; absent if it has no such value.
std::optional<OnnxNumber> Fit(OnnxNumber number, int element) {
  const auto within = [&](OnnxNumber least,
                          OnnxNumber end) -> std::optional<OnnxNumber> {
    if (!(number >= least && number < end)) return std::nullopt;
    return std::trunc(number);
  };
  switch (element) {
    case TensorProto::FLOAT:
      return static_cast<OnnxNumber>(static_cast<float>(number));
    case TensorProto::DOUBLE:
      return static_cast<OnnxNumber>(static_cast<double>(number));
    case TensorProto::INT64:
      return within(-0x1p63L, 0x1p63L);
    case TensorProto::INT32:
      return within(-0x1p31L, 0x1p31L);
    case TensorProto::INT8:
      return within(-128, 128);
    case TensorProto::UINT8:
      return within(0, 256);
    case TensorProto::BOOL:
      return number != 0 ? 1.0L : 0.0L;
    default:
      return std::nullopt;
  }
}

std::optional<OnnxNumber> Divided(OnnxNumber a, OnnxNumber b, int element) {
  if (element == TensorProto::FLOAT || element == TensorProto::DOUBLE) {
    return a / b;
  }
  if (b == 0) return std::nullopt;
  return std::trunc(a / b);
}

// The remainder, with the sign of the divisor; of fmod, of the dividend.
std::optional<OnnxNumber> Remainder(OnnxNumber a, OnnxNumber b, bool fmod) {
  if (b == 0) return std::nullopt;
  const OnnxNumber rest = std::fmod(a, b);
  return fmod || rest == 0 || (rest < 0) == (b < 0) ? rest : rest + b;
}

std::optional<OnnxNumber> Binary(const OnnxOperation& op, OnnxNumber a,
                                 OnnxNumber b) {
  const std::string& type = op.node.op_type();
  if (type == "Add" || type == "Sum") return a + b;
  if (type == "Sub") return a - b;
  if (type == "Mul") return a * b;
  if (type == "Div") return Divided(a, b, op.types[0]->element);
  if (type == "Mod") {
    return Remainder(a, b, IntegerAttribute(op.node, "fmod", 0) != 0);
  }
  if (type == "Pow") return std::pow(a, b);
  if (type == "Min") return std::min(a, b);
  if (type == "Max") return std::max(a, b);
  if (type == "Equal") return OnnxNumber(a == b);
  if (type == "Less") return OnnxNumber(a < b);
  if (type == "LessOrEqual") return OnnxNumber(a <= b);
  if (type == "Greater") return OnnxNumber(a > b);
  if (type == "GreaterOrEqual") return OnnxNumber(a >= b);
  if (type == "And") return OnnxNumber(a != 0 && b != 0);
  if (type == "Or") return OnnxNumber(a != 0 || b != 0);
  return std::nullopt;
}

std::optional<OnnxNumber> Unary(std::string_view type, OnnxNumber a) {
  if (type == "Abs") return std::abs(a);
  if (type == "Neg") return -a;
  if (type == "Floor") return std::floor(a);
  if (type == "Ceil") return std::ceil(a);
  if (type == "Round") return std::nearbyint(a);
  if (type == "Sqrt" && a >= 0) return std::sqrt(a);
  if (type == "Reciprocal") return 1 / a;
  if (type == "Not") return OnnxNumber(a == 0);
  if (type == "Cast" || type == "CastLike") return a;
  return std::nullopt;
}

// The index of the element of `shape` at these coordinates; extents of 1 are
// repeated, and coordinates before the shape's own are ignored.
std::size_t IndexAt(const TensorShape& shape, const TensorShape& at) {
  std::int64_t index = 0;
  const std::size_t skipped = at.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    index = index * shape[i] + (shape[i] == 1 ? 0 : at[i + skipped]);
  }
  return static_cast<std::size_t>(index);
}

class Computer {
 public:
  Computer(const OnnxOperation& op, const OnnxType& output)
      : op_(op), output_(output) {}

  Found Compute() {
    const std::string& type = op_.node.op_type();
    if (type == "Constant") return OfConstant();
    if (type == "Shape") return OfShape();
    if (type == "Size") {
      return OnnxNumbers{OnnxNumber(ElementsOf(op_.Shape(0)))};
    }
    for (std::size_t i = 0; i < op_.types.size(); ++i) {
      if (op_.Has(i) && op_.numbers[i] == nullptr) return std::nullopt;
    }
    if (op_.types.empty()) return std::nullopt;
    if (type == "Identity" || type == "Reshape" || type == "Squeeze" ||
        type == "Unsqueeze" || type == "Flatten") {
      return *op_.numbers[0];
    }
    if (type == "ConstantOfShape") return Filled();
    if (type == "Range") return Counted();
    if (type == "Concat") return Joined();
    if (type == "Slice") return Sliced();
    if (type == "Gather") return Gathered();
    if (type == "Transpose") return Transposed();
    if (type == "Expand" || type == "Tile") return Repeated();
    if (type == "Where") return Chosen();
    if (type.starts_with("Reduce")) return Reduced();
    return op_.types.size() == 1 || type == "CastLike" ? EachAlone()
                                                       : EachTogether();
  }

 private:
  // The output's elements, as `element` gives them for their coordinates.
  template <class Element>
  OnnxNumbers Each(Element element) const {
    OnnxNumbers numbers;
    TensorShape place(output_.shape.size());
    for (std::int64_t i = ElementsOf(output_.shape); i > 0; --i) {
      numbers.push_back(element(place));
      for (std::size_t axis = place.size(); axis-- > 0;) {
        if (++place[axis] < output_.shape[axis]) break;
        place[axis] = 0;
      }
    }
    return numbers;
  }

  OnnxNumber At(std::size_t input, std::size_t index) const {
    return (*op_.numbers[input])[index];
  }

  Found OfConstant() const {
    for (const onnx::AttributeProto& attribute : op_.node.attribute()) {
      if (attribute.has_t()) return NumbersOf(attribute.t());
      if (attribute.name() == "value_int") {
        return OnnxNumbers{OnnxNumber(attribute.i())};
      }
      if (attribute.name() == "value_float") return OnnxNumbers{attribute.f()};
      if (attribute.name() == "value_ints") {
        return OnnxNumbers(attribute.ints().begin(), attribute.ints().end());
      }
      if (attribute.name() == "value_floats") {
        return OnnxNumbers(attribute.floats().begin(),
                           attribute.floats().end());
      }
    }
    return std::nullopt;
  }

  Found OfShape() const {
    const TensorShape& shape = op_.Shape(0);
    std::int64_t start = IntegerAttribute(op_.node, "start", 0);
    if (start < 0) start += std::ssize(shape);
    start = std::clamp<std::int64_t>(start, 0, std::ssize(shape));
    const auto first = shape.begin() + start;
    return OnnxNumbers(first, first + output_.shape[0]);
  }

  Found Filled() const {
    OnnxNumbers value = {0};
    if (const auto* attribute = FindAttribute(op_.node, "value")) {
      Found found = NumbersOf(attribute->t());
      if (!found || found->size() != 1) return std::nullopt;
      value = *found;
    }
    return OnnxNumbers(static_cast<std::size_t>(ElementsOf(output_.shape)),
                       value[0]);
  }

  Found Counted() const {
    OnnxNumbers numbers;
    for (std::int64_t i = 0; i < output_.shape[0]; ++i) {
      numbers.push_back(At(0, 0) + OnnxNumber(i) * At(2, 0));
    }
    return numbers;
  }

  Found Joined() const {
    const Result<std::size_t> axis = op_.Axis(1);
    if (!axis) return std::nullopt;
    return Each([&](TensorShape at) {
      for (std::size_t i = 0; i < op_.types.size(); ++i) {
        if (!op_.Has(i)) continue;
        const std::int64_t extent = op_.Shape(i)[*axis];
        if (at[*axis] < extent) return At(i, IndexAt(op_.Shape(i), at));
        at[*axis] -= extent;
      }
      return OnnxNumber(0);  // never: the extents add up to the output's
    });
  }

  Found Sliced() const {
    const auto slices = SlicesOf(op_);
    if (!slices) return std::nullopt;
    return Each([&](TensorShape at) {
      for (std::size_t i = 0; i < at.size(); ++i) {
        at[i] = (*slices)[i].first + (*slices)[i].step * at[i];
      }
      return At(0, IndexAt(op_.Shape(0), at));
    });
  }

  Found Gathered() const {
    const TensorShape& shape = op_.Shape(0);
    const Result<std::size_t> axis = op_.Axis(0);
    if (!axis) return std::nullopt;
    const auto first = std::ptrdiff_t(*axis);
    const auto rank = std::ssize(op_.Shape(1));
    bool inside = true;
    OnnxNumbers numbers = Each([&](TensorShape at) {
      const TensorShape place(at.begin() + first, at.begin() + first + rank);
      OnnxNumber index = At(1, IndexAt(op_.Shape(1), place));
      if (index < 0) index += OnnxNumber(shape[*axis]);
      if (index < 0 || index >= OnnxNumber(shape[*axis])) {
        inside = false;
        return OnnxNumber(0);
      }
      at.erase(at.begin() + first, at.begin() + first + rank);
      at.insert(at.begin() + first, static_cast<std::int64_t>(index));
      return At(0, IndexAt(shape, at));
    });
    return inside ? Found(std::move(numbers)) : std::nullopt;
  }

  Found Transposed() const {
    const auto* perm = FindAttribute(op_.node, "perm");
    const std::size_t rank = output_.shape.size();
    return Each([&](const TensorShape& at) {
      TensorShape from(rank);
      for (std::size_t i = 0; i < rank; ++i) {
        from[perm == nullptr
                 ? rank - 1 - i
                 : static_cast<std::size_t>(perm->ints(static_cast<int>(i)))] =
            at[i];
      }
      return At(0, IndexAt(op_.Shape(0), from));
    });
  }

  // The operand again along each axis.
  Found Repeated() const {
    const TensorShape& shape = op_.Shape(0);
    return Each([&](TensorShape at) {
      const std::size_t skipped = at.size() - shape.size();
      for (std::size_t i = 0; i < shape.size(); ++i) {
        at[i + skipped] %= std::max<std::int64_t>(shape[i], 1);
      }
      return At(0, IndexAt(shape, at));
    });
  }

  Found Chosen() const {
    return Each([&](const TensorShape& at) {
      const std::size_t from = At(0, IndexAt(op_.Shape(0), at)) != 0 ? 1 : 2;
      return At(from, IndexAt(op_.Shape(from), at));
    });
  }

  // All elements as one.
  Found Reduced() const {
    if (ElementsOf(output_.shape) != 1 || op_.numbers[0]->empty()) {
      return std::nullopt;
    }
    const std::string& type = op_.node.op_type();
    OnnxNumber result = At(0, 0);
    for (std::size_t i = 1; i < op_.numbers[0]->size(); ++i) {
      if (type == "ReduceProd") {
        result *= At(0, i);
      } else if (type == "ReduceSum") {
        result += At(0, i);
      } else if (type == "ReduceMax") {
        result = std::max(result, At(0, i));
      } else if (type == "ReduceMin") {
        result = std::min(result, At(0, i));
      } else {
        return std::nullopt;
      }
    }
    return OnnxNumbers{result};
  }

  Found EachAlone() const {
    OnnxNumbers numbers;
    for (const OnnxNumber number : *op_.numbers[0]) {
      const auto result = Unary(op_.node.op_type(), number);
      if (!result) return std::nullopt;
      numbers.push_back(*result);
    }
    return numbers;
  }

  Found EachTogether() const {
    bool known = op_.opset >= 7 && Binary(op_, 1, 1);
    if (!known) return std::nullopt;
    OnnxNumbers numbers = Each([&](const TensorShape& at) {
      OnnxNumber result = At(0, IndexAt(op_.Shape(0), at));
      for (std::size_t i = 1; i < op_.types.size() && known; ++i) {
        if (!op_.Has(i)) continue;
        const auto next = Binary(op_, result, At(i, IndexAt(op_.Shape(i), at)));
        known = next.has_value();
        if (known) result = *next;
      }
      return result;
    });
    return known ? Found(std::move(numbers)) : std::nullopt;
  }

  const OnnxOperation& op_;
  const OnnxType& output_;
};

// The parts of a list, one after the other.
std::vector<Found> Parts(const OnnxOperation& op,
                         const std::vector<OnnxType>& outputs) {
  std::vector<Found> parts(outputs.size());
  if (op.numbers[0] == nullptr || op.Shape(0).size() != 1) return parts;
  auto next = op.numbers[0]->begin();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto end = next + outputs[i].shape[0];
    parts[i] = OnnxNumbers(next, end);
    next = end;
  }
  return parts;
}

}  // namespace

std::vector<std::optional<OnnxNumbers>> ComputeOutputs(
    const OnnxOperation& operation, const std::vector<OnnxType>& outputs) {
  std::vector<Found> found(outputs.size());
  OnnxNumber elements = 0;
  for (const OnnxType& output : outputs) {
    elements += OnnxNumber(ElementsOf(output.shape));
  }
  if (outputs.empty() || elements > OnnxNumber(kMaxOnnxValues) ||
      !IsStandard(operation.node)) {
    return found;
  }
  if (operation.node.op_type() == "Split") return Parts(operation, outputs);
  if (outputs.size() != 1) return found;
  found[0] = Computer(operation, outputs[0]).Compute();
  if (!found[0]) return found;
  if (found[0]->size() !=
      static_cast<std::size_t>(ElementsOf(outputs[0].shape))) {
    return {std::nullopt};
  }
  for (OnnxNumber& number : *found[0]) {
    const auto fit = Fit(number, outputs[0].element);
    if (!fit) return {std::nullopt};
    number = *fit;
  }
  return found;
}

}  // namespace ucudnn
