#include "base/onnx/input_shape.h"

#include <fmt/ranges.h>

#include <map>

#include "base/onnx/model.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using onnx::GraphProto;
using onnx::ValueInfoProto;
using Symbols = std::map<std::string, std::int64_t>;

bool HasSymbolicSizes(const ValueInfoProto& input) {
  const auto& shape = input.type().tensor_type().shape();
  for (int i = 1; i < shape.dim_size(); ++i) {
    if (!shape.dim(i).has_dim_value()) return true;
  }
  return false;
}

// The input that `shape` is for.
Result<ValueInfoProto*> Find(const InputShape& shape, GraphProto* graph) {
  std::vector<std::string> symbolic;
  std::vector<std::string> names;
  ValueInfoProto* found = nullptr;
  for (ValueInfoProto& input : *graph->mutable_input()) {
    const bool has_symbols = HasSymbolicSizes(input);
    if (has_symbols) symbolic.push_back(Excerpt(input.name()));
    names.push_back(Excerpt(input.name()));
    if (shape.input.empty() ? has_symbols : input.name() == shape.input) {
      found = &input;
    }
  }
  if (!shape.input.empty() && found == nullptr) {
    names.resize(std::min<std::size_t>(names.size(), 8));
    return Fail(Code::kInvalidArgument,
                "the model has no input '{}'; its inputs are {}",
                Excerpt(shape.input), fmt::join(names, ", "));
  }
  if (shape.input.empty() && symbolic.size() != 1) {
    return Fail(Code::kInvalidArgument,
                "sizes {} are given, and {} have sizes that are not numbers; "
                "INPUT={} says which one is meant",
                fmt::join(shape.extents, ","),
                symbolic.empty()
                    ? "no inputs"
                    : fmt::format("the inputs {}", fmt::join(symbolic, ", ")),
                fmt::join(shape.extents, ","));
  }
  return found;
}

Status SetSizes(const InputShape& shape, ValueInfoProto* input,
                Symbols* symbols) {
  auto* sizes = input->mutable_type()->mutable_tensor_type()->mutable_shape();
  if (sizes->dim_size() != static_cast<int>(shape.extents.size()) + 1) {
    return Fail(Code::kInvalidArgument,
                "input '{}' has {} dimensions, the batch among them; {} sizes "
                "are accepted, {} were given",
                Excerpt(input->name()), sizes->dim_size(),
                sizes->dim_size() - 1, shape.extents.size());
  }
  for (int i = 1; i < sizes->dim_size(); ++i) {
    auto* dim = sizes->mutable_dim(i);
    const std::int64_t extent = shape.extents[static_cast<std::size_t>(i) - 1];
    if (dim->has_dim_value() && dim->dim_value() != extent) {
      return Fail(Code::kInvalidArgument,
                  "input '{}' has the fixed size {} where {} was given; export "
                  "the model with a dynamic size",
                  Excerpt(input->name()), dim->dim_value(), extent);
    }
    // A name that the batch has too stands for any unknown size.
    const bool placeholder = dim->dim_param() == sizes->dim(0).dim_param();
    if (dim->has_dim_param() && !dim->dim_param().empty() && !placeholder) {
      const auto [known, added] = symbols->emplace(dim->dim_param(), extent);
      if (!added && known->second != extent) {
        return Fail(Code::kInvalidArgument,
                    "input '{}': the size '{}' would be {} and {}",
                    Excerpt(input->name()), Excerpt(dim->dim_param()),
                    known->second, extent);
      }
    }
    dim->set_dim_value(extent);
  }
  return {};
}

Result<std::string> Set(std::string_view bytes,
                        const std::vector<InputShape>& shapes) {
  onnx::ModelProto model;
  UCUDNN_RETURN_IF_ERROR(ParseOnnx(bytes, &model));
  GraphProto* graph = model.mutable_graph();
  Symbols symbols;
  for (const InputShape& shape : shapes) {
    UCUDNN_ASSIGN_OR_RETURN(ValueInfoProto * input, Find(shape, graph));
    UCUDNN_RETURN_IF_ERROR(SetSizes(shape, input, &symbols));
  }
  ForEachSize(graph, [&](auto* dim) {
    if (!dim->has_dim_param()) return;
    const auto known = symbols.find(dim->dim_param());
    if (known != symbols.end()) dim->set_dim_value(known->second);
  });
  return model.SerializeAsString();
}

}  // namespace

Result<std::string> WithInputShapes(std::string_view model,
                                    const std::vector<InputShape>& shapes,
                                    std::string_view source) {
  Result<std::string> sized = Set(model, shapes);
  if (!sized) return Within(source, std::move(sized).error());
  return sized;
}

}  // namespace ucudnn
