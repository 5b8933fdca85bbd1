#ifndef UCUDNN_DEVICE_MICRO_BATCHES_H_
#define UCUDNN_DEVICE_MICRO_BATCHES_H_

// Runs one kernel's division: its micro-batches one after the other, as offsets
// into the caller's tensors, in one workspace. The result equals the undivided
// convolution's, up to rounding:
//   forward, backward_data:  each micro-batch, on its images, with the caller's
//                            alpha and beta
//   backward_filter:         the first micro-batch with the caller's beta; the
//                            others accumulate
//
// Neither allocates nor synchronises.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"
#include "device/image_strides.h"

namespace ucudnn {

// One micro-batch size, prepared, to be run `count` times.
struct MicroBatchStep {
  Convolution* convolution = nullptr;
  std::int64_t batch = 0;
  std::int64_t count = 0;
};

// Runs `convolution` on the images from `first` on.
Status RunFrom(Convolution& convolution, const ImageStrides& strides,
               const ConvArgs& args, std::int64_t first, void* workspace,
               Bytes workspace_size);

// What RunSteps had enqueued when it stopped: `step` is the step that failed,
// `images` the number of images done.
struct MicroBatchProgress {
  std::size_t step = 0;
  std::int64_t images = 0;
};

// Enqueues all steps in order; stops at the first that fails.
Status RunSteps(std::span<const MicroBatchStep> steps,
                const ImageStrides& strides, const ConvArgs& args,
                void* workspace, Bytes workspace_size,
                MicroBatchProgress* progress);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_MICRO_BATCHES_H_
