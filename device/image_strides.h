#ifndef UCUDNN_DEVICE_IMAGE_STRIDES_H_
#define UCUDNN_DEVICE_IMAGE_STRIDES_H_

// Where an operand's images lie, for convolutions of some of them. Pure.

#include <cstdint>

#include "base/conv_problem.h"
#include "device/device.h"

namespace ucudnn {

// The distance in bytes between consecutive images in each operand of ConvArgs;
// 0 for the filter and its gradient.
struct ImageStrides {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t out = 0;
};

// The strides of packed tensors.
ImageStrides PackedStrides(const ConvProblem& problem);

// The operands of the images from `first` on.
ConvArgs ArgsFrom(const ConvArgs& args, const ImageStrides& strides,
                  std::int64_t first);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_IMAGE_STRIDES_H_
