#ifndef UCUDNN_DEVICE_CUDNN_CUDNN_DEVICE_H_
#define UCUDNN_DEVICE_CUDNN_CUDNN_DEVICE_H_

// NVIDIA GPUs as devices, through cuDNN. This header needs none of CUDA's; a
// build without cuDNN has no such target.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto devices, OpenCudnnDevices({}));
//
// A device has a stream of its own, in the GPU's primary context (which the
// CUDA runtime uses too) or, for a slice, in a green context of some of its
// multiprocessors. Entry points make that context current and restore the
// caller's, so devices may be used from any thread, by one at a time.
//
// Each error that the GPU reports is returned by the call that notices it. One
// that poisons the context (an illegal address, an uncorrectable memory error,
// a GPU that fell off the bus) is kDataLoss, from then on from every call:
// the process must be started anew to use that GPU again; other GPUs go on.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace ucudnn {

struct CudnnOptions {
  // Which of the GPUs that the driver shows, counted from 0; empty: all.
  std::vector<int> ordinals;
  // 0 for whole GPUs; else each device is a slice of at least so many of its
  // multiprocessors (H200: rounded up to a multiple of 8), a kind of its own
  // whose id ends in "/<multiprocessors>sm".
  std::int64_t slice_sms = 0;
  // Which of cuDNN's interfaces ListAlgorithms asks.
  bool legacy = true;
  bool graph = true;
  // Asks the graph interface where the first one solves nothing. With `graph`
  // false, listing takes no time worth speaking of.
  bool graph_if_needed = false;
  // Of the graph interface's suggestions in the asked precision only the first
  // so many, and its fallbacks; 0: all. Fewer list and measure sooner.
  int most_engines = 0;
  // On how many threads many batches are listed with the graph interface.
  int listing_threads = 1;
  // Told of each GPU that cannot be opened, which is then left out. Without it
  // the first such GPU is an error.
  std::function<void(int ordinal, const Error& error)> on_failure;
};

// "sm=32": the value of a --slice flag, as slice_sms. kInvalidArgument.
Result<std::int64_t> ParseSlice(std::string_view text);

// kUnavailable without a driver, cuDNN or a GPU, saying which;
// kInvalidArgument if an ordinal is not one of the GPUs'.
Result<std::vector<std::unique_ptr<Device>>> OpenCudnnDevices(
    const CudnnOptions& options);

namespace cudnn {
class CudnnHandle;
// The handle (device/cudnn/handle.h) that `device` works through, for whatever
// else is to be computed in its order of work; null if it is no such device.
CudnnHandle* HandleOf(Device& device);
}  // namespace cudnn

// The GPU of a context (a CUcontext) that the program around us made and that
// outlives the device: the primary one, or a green context's, then a slice. It
// has a stream and a cuDNN handle of its own. kFailedPrecondition if the
// context is null or of no use; otherwise as above.
Result<std::unique_ptr<Device>> OpenCudnnDeviceIn(void* context);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_CUDNN_CUDNN_DEVICE_H_
