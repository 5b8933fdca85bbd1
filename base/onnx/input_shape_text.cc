#include <fmt/ranges.h>

#include "base/conv_problem.h"
#include "base/onnx/input_shape.h"
#include "base/text.h"

namespace ucudnn {

Result<InputShape> ParseInputShape(std::string_view text) {
  InputShape shape;
  const std::size_t equals = text.rfind('=');
  std::string_view rest = text;
  if (equals != std::string_view::npos) {
    shape.input = text.substr(0, equals);
    rest = text.substr(equals + 1);
  }
  while (true) {
    const std::size_t comma = rest.find(',');
    const auto extent =
        ParseInteger(rest.substr(0, comma), 1, std::int64_t{1} << 31);
    if (!extent || (equals == 0 && shape.input.empty())) {
      return Fail(Code::kInvalidArgument,
                  "'{}'; the sizes besides the batch are accepted, such as "
                  "3,224,224, or INPUT=3,224,224",
                  Excerpt(text));
    }
    shape.extents.push_back(*extent);
    if (comma == std::string_view::npos) return shape;
    rest = rest.substr(comma + 1);
  }
}

std::string ToText(const InputShape& shape) {
  return fmt::format("{}{}{}", shape.input, shape.input.empty() ? "" : "=",
                     fmt::join(shape.extents, ","));
}

}  // namespace ucudnn
