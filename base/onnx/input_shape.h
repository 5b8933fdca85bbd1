#ifndef UCUDNN_BASE_ONNX_INPUT_SHAPE_H_
#define UCUDNN_BASE_ONNX_INPUT_SHAPE_H_

// Sizes for ONNX models that were exported with symbolic ones, such as a
// dynamic height and width.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ucudnn {

struct InputShape {
  std::string input;                  // empty: the input with symbolic sizes
  std::vector<std::int64_t> extents;  // without the batch

  friend bool operator==(const InputShape&, const InputShape&) = default;
};

// "3,224,224" or "NAME=3,224,224". kInvalidArgument says what is accepted.
Result<InputShape> ParseInputShape(std::string_view text);

// The shape as ParseInputShape reads it.
std::string ToText(const InputShape& shape);

// The model's bytes with these sizes; symbols of the same name elsewhere get
// them too. kInvalidArgument, naming the input: there is no such input; without
// a name, not exactly one has symbolic sizes; the input has another number of
// dimensions, or another fixed size; the bytes are not an ONNX model.
// kUnimplemented in a build without ONNX.
Result<std::string> WithInputShapes(std::string_view model,
                                    const std::vector<InputShape>& shapes,
                                    std::string_view source);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_INPUT_SHAPE_H_
