#include "device/micro_batches.h"

namespace ucudnn {
Status RunFrom(Convolution& convolution, const ImageStrides& strides,
               const ConvArgs& args, std::int64_t first, void* workspace,
               Bytes workspace_size) {
  ConvArgs step = ArgsFrom(args, strides, first);
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
