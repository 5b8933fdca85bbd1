#include "device/image_strides.h"

namespace ucudnn {

ImageStrides PackedStrides(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t element = ElementBytes(problem.precision);
  const std::int64_t input = g.input_elements() * element;
  const std::int64_t output = g.output_elements() * element;
  switch (problem.op) {
    case ConvOp::kForward:
      return {.a = input, .b = 0, .out = output};
    case ConvOp::kBackwardData:
      return {.a = output, .b = 0, .out = input};
    case ConvOp::kBackwardFilter:
      return {.a = input, .b = output, .out = 0};
  }
  return {};
}

ConvArgs ArgsFrom(const ConvArgs& args, const ImageStrides& strides,
                  std::int64_t first) {
  ConvArgs from = args;
  from.a = static_cast<const char*>(args.a) + first * strides.a;
  from.b = static_cast<const char*>(args.b) + first * strides.b;
  from.out = static_cast<char*>(args.out) + first * strides.out;
  return from;
}

}  // namespace ucudnn
