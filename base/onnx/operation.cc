#include "base/onnx/operation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/limits.h"
#include "base/onnx/model.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using onnx::TensorProto;

template <class T>
void Append(std::string_view bytes, OnnxNumbers* numbers) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    numbers->push_back(value);
  }
}

template <class List>
void AppendAll(const List& list, OnnxNumbers* numbers) {
  numbers->insert(numbers->end(), list.begin(), list.end());
}

}  // namespace

std::optional<OnnxNumbers> NumbersOf(const TensorProto& tensor) {
  const auto count = CheckedProduct(tensor.dims(), 1, kMaxOnnxValues);
  if (!count || tensor.data_location() == TensorProto::EXTERNAL ||
      tensor.external_data_size() > 0) {
    return std::nullopt;
  }
  OnnxNumbers numbers;
  const std::string& raw = tensor.raw_data();
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      Append<float>(raw, &numbers);
      AppendAll(tensor.float_data(), &numbers);
      break;
    case TensorProto::DOUBLE:
      Append<double>(raw, &numbers);
      AppendAll(tensor.double_data(), &numbers);
      break;
    case TensorProto::INT64:
      Append<std::int64_t>(raw, &numbers);
      AppendAll(tensor.int64_data(), &numbers);
      break;
    case TensorProto::INT32:
      Append<std::int32_t>(raw, &numbers);
      AppendAll(tensor.int32_data(), &numbers);
      break;
    case TensorProto::INT8:
      Append<std::int8_t>(raw, &numbers);
      AppendAll(tensor.int32_data(), &numbers);
      break;
    case TensorProto::UINT8:
    case TensorProto::BOOL:
      Append<std::uint8_t>(raw, &numbers);
      AppendAll(tensor.int32_data(), &numbers);
      break;
    default:
      return std::nullopt;
  }
  if (numbers.size() != static_cast<std::size_t>(*count)) return std::nullopt;
  return numbers;
}

Result<std::vector<std::int64_t>> OnnxOperation::Integers(
    std::size_t input) const {
  if (numbers[input] == nullptr) {
    return Fail(Code::kNotFound,
                "its shape depends on the numbers in its input '{}', which are "
                "not known",
                Excerpt(node.input(static_cast<int>(input))));
  }
  std::vector<std::int64_t> integers;
  integers.reserve(numbers[input]->size());
  for (const OnnxNumber number : *numbers[input]) {
    if (std::trunc(number) != number || number < -0x1p63L ||
        number >= 0x1p63L) {
      return Fail(Code::kInvalidArgument,
                  "its input '{}' holds {}; integers are accepted",
                  Excerpt(node.input(static_cast<int>(input))), number);
    }
    integers.push_back(static_cast<std::int64_t>(number));
  }
  return integers;
}

Result<std::optional<std::vector<std::int64_t>>> OnnxOperation::Integers(
    std::string_view attribute, std::size_t input) const {
  if (const onnx::AttributeProto* found = FindAttribute(node, attribute)) {
    return std::vector<std::int64_t>(found->ints().begin(),
                                     found->ints().end());
  }
  if (!Has(input)) return std::nullopt;
  return Integers(input);
}

Result<std::size_t> OnnxOperation::Axis(std::int64_t absent) const {
  return AxisOf(IntegerAttribute(node, "axis", absent), Shape(0).size());
}

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node,
                                          std::string_view name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

std::int64_t IntegerAttribute(const onnx::NodeProto& node,
                              std::string_view name, std::int64_t absent) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? absent : attribute->i();
}

std::string TextAttribute(const onnx::NodeProto& node, std::string_view name,
                          std::string_view absent) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? std::string(absent) : attribute->s();
}

Result<std::size_t> AxisOf(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) {
    return Fail(Code::kInvalidArgument,
                "its axis is {}; its operand has {} dimensions", axis, n);
  }
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

std::int64_t ElementsOf(const TensorShape& shape) {
  return CheckedProduct(shape, 1, kMaxTensorBytes).value_or(kMaxTensorBytes);
}

Result<std::vector<OnnxSlice>> SlicesOf(const OnnxOperation& operation) {
  const TensorShape& shape = operation.Shape(0);
  std::vector<OnnxSlice> slices(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) slices[i].count = shape[i];
  UCUDNN_ASSIGN_OR_RETURN(const auto starts, operation.Integers("starts", 1));
  UCUDNN_ASSIGN_OR_RETURN(const auto ends, operation.Integers("ends", 2));
  UCUDNN_ASSIGN_OR_RETURN(auto axes, operation.Integers("axes", 3));
  UCUDNN_ASSIGN_OR_RETURN(auto steps, operation.Integers("steps", 4));
  if (!starts || !ends) {
    return Fail(Code::kInvalidArgument, "it lacks its starts or ends");
  }
  if (!axes) {
    axes.emplace();
    for (std::size_t i = 0; i < starts->size(); ++i) {
      axes->push_back(static_cast<std::int64_t>(i));
    }
  }
  if (!steps) steps.emplace(starts->size(), 1);
  if (ends->size() != starts->size() || axes->size() != starts->size() ||
      steps->size() != starts->size()) {
    return Fail(Code::kInvalidArgument,
                "it has {} starts, {} ends, {} axes and {} steps; equal "
                "numbers are expected",
                starts->size(), ends->size(), axes->size(), steps->size());
  }
  for (std::size_t i = 0; i < starts->size(); ++i) {
    UCUDNN_ASSIGN_OR_RETURN(const std::size_t axis,
                            AxisOf((*axes)[i], shape.size()));
    const std::int64_t extent = shape[axis];
    // Steps beyond the extent read one element; so numbers stay small.
    const std::int64_t step =
        std::clamp((*steps)[i], -std::max<std::int64_t>(extent, 1),
                   std::max<std::int64_t>(extent, 1));
    if (step == 0) {
      return Fail(Code::kInvalidArgument, "one of its steps is 0");
    }
    const std::int64_t low = step > 0 ? 0 : -1;
    const auto place = [&](std::int64_t index) {
      if (index < 0) index += extent;
      return std::clamp(index, low, extent + low);
    };
    const std::int64_t first = std::max(place((*starts)[i]), std::int64_t{0});
    const std::int64_t distance = place((*ends)[i]) - first;
    const std::int64_t count =
        distance == 0 || (distance > 0) != (step > 0)
            ? 0
            : (std::abs(distance) - 1) / std::abs(step) + 1;
    slices[axis] = {first, step, count};
  }
  return slices;
}

}  // namespace ucudnn
