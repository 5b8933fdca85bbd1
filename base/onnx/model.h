#ifndef UCUDNN_BASE_ONNX_MODEL_H_
#define UCUDNN_BASE_ONNX_MODEL_H_

// Prepares ONNX models for shape inference; internal to base/onnx.

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// A tensor's element type.
struct OnnxElement {
  std::int64_t bytes;
  bool floating;
};

// Empty for types without a size.
std::optional<OnnxElement> ElementOf(int type);

// The product of all numbers and `factor`; empty if one is negative or the
// product exceeds `max`.
template <class Numbers>
std::optional<std::int64_t> CheckedProduct(const Numbers& numbers,
                                           std::int64_t factor,
                                           std::int64_t max) {
  std::int64_t product = factor;
  bool zero = false;
  for (const std::int64_t number : numbers) {
    if (number < 0) return std::nullopt;
    zero = zero || number == 0;
    if (!zero && __builtin_mul_overflow(product, number, &product)) {
      return std::nullopt;
    }
  }
  if (zero) return 0;
  if (product > max) return std::nullopt;
  return product;
}

inline constexpr std::int64_t kMaxTensorBytes = kMaxCount;

struct OnnxModel {
  onnx::ModelProto proto;
  // The inputs that are not data.
  std::unordered_set<std::string> parameters;
  // The files that hold initializers whose data is not in the model.
  std::unordered_map<std::string, std::string> elsewhere;
  // The model's own batch, if another was asked for: what it tells about the
  // shapes of its tensors does not hold.
  std::optional<std::int64_t> fixed_batch;
};

// A model that is safe for shape inference: every node has a unique name and
// comes after those that compute its inputs, every initializer is an input as
// well (large ones are only that), the batch is set and no dimension of an
// input is symbolic. Errors as for ReadOnnx.
Result<OnnxModel> PrepareOnnx(std::string_view bytes, BatchSize batch);

// Reads a model's bytes within the limits of base/limits.h. Standard operators
// get the empty domain, and negative sizes, which some exporters write for
// unknown ones, are removed. Errors as for ReadOnnx.
Status ParseOnnx(std::string_view bytes, onnx::ModelProto* model);

// Calls visit(&dim) for every dimension that the graph tells of a tensor.
template <class Visit>
void ForEachSize(onnx::GraphProto* graph, Visit visit) {
  for (auto* values : {graph->mutable_input(), graph->mutable_value_info(),
                       graph->mutable_output()}) {
    for (onnx::ValueInfoProto& value : *values) {
      if (!value.type().tensor_type().has_shape()) continue;
      auto* type = value.mutable_type()->mutable_tensor_type();
      for (auto& dim : *type->mutable_shape()->mutable_dim()) visit(&dim);
    }
  }
}

// Whether the operator is one of ONNX, not of another domain.
bool IsStandard(const onnx::NodeProto& node);

// Whether the operand is a weight of a layer.
bool IsLayerWeight(const onnx::NodeProto& node, int operand);

// Whether the node's output stands for its first operand: a view of it, or what
// is left of it when it is rounded for quantization.
bool IsView(const onnx::NodeProto& node);

// "node '/conv1/Conv' (Conv)", "node 'q' (com.microsoft.FusedConv)"
std::string Shown(const onnx::NodeProto& node);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_MODEL_H_
