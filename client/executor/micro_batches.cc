#include "client/executor/micro_batches.h"

namespace ucudnn {
namespace {

const void* Advance(const void* data, std::int64_t bytes) {
  return static_cast<const char*>(data) + bytes;
}

void* Advance(void* data, std::int64_t bytes) {
  return static_cast<char*>(data) + bytes;
}

}  // namespace

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

Status RunFrom(Convolution& convolution, const ImageStrides& strides,
               const ConvArgs& args, std::int64_t first, void* workspace,
               Bytes workspace_size) {
  ConvArgs step = args;
  step.a = Advance(args.a, first * strides.a);
  step.b = Advance(args.b, first * strides.b);
  step.out = Advance(args.out, first * strides.out);
  // Micro-batches of one output without an image stride accumulate into it.
  if (strides.out == 0 && first > 0) step.beta = 1.0F;
  return convolution.Run(step, workspace, workspace_size);
}

Status RunSteps(std::span<const MicroBatchStep> steps,
                const ImageStrides& strides, const ConvArgs& args,
                void* workspace, Bytes workspace_size,
                MicroBatchProgress* progress) {
  std::int64_t done = 0;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (std::int64_t n = 0; n < steps[s].count; ++n, done += steps[s].batch) {
      if (Status status = RunFrom(*steps[s].convolution, strides, args, done,
                                  workspace, workspace_size);
          !status) {
        *progress = {s, done};
        return status;
      }
    }
  }
  *progress = {steps.size(), done};
  return {};
}

}  // namespace ucudnn
