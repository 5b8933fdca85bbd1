#ifndef UCUDNN_DEVICE_CUDNN_CUDNN_DEVICE_H_
#define UCUDNN_DEVICE_CUDNN_CUDNN_DEVICE_H_

// NVIDIA GPUs as devices, through cuDNN. This header includes none of CUDA's; a
// build without cuDNN has no such target.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto devices, OpenCudnnDevices({}));
//
// A device has its own stream, in the GPU's primary context (which the CUDA
// runtime uses too) or, for a slice, in a green context of some of its
// multiprocessors. Entry points make that context current and restore the
// caller's, so devices may be used from any thread, by one at a time.
//
// The call that notices an error of the GPU returns it. An error that poisons
// the context (an illegal address, an uncorrectable memory error, a GPU that
// fell off the bus) is kDataLoss, from then on from every call: that GPU can be
// used again only after a restart of the process; other GPUs keep working.

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
  // Which of the driver's GPUs, counted from 0; empty: all.
  std::vector<int> ordinals;
  // 0 for whole GPUs; else each device is a slice of at least this many
  // multiprocessors (H200: rounded up to a multiple of 8). A slice is a device
  // kind of its own, and its id ends in "/<multiprocessors>sm".
  std::int64_t slice_sms = 0;
  // Which of cuDNN's APIs ListAlgorithms uses.
  bool legacy = true;
  bool graph = true;
  // Uses the graph API if the legacy API solves nothing. With `graph` false,
  // listing takes negligible time.
  bool graph_if_needed = false;
  // At most this many of the graph API's suggestions in the requested
  // precision, besides its fallbacks; 0: all. Fewer list and measure sooner.
  int most_engines = 0;
  // Also lists the legacy API's algorithms in two parallel branches
  // (branches.h).
  bool branches = false;
  // Threads that list many batches with the graph API.
  int listing_threads = 1;
  // Called for each GPU that cannot be opened and is then left out, with what
  // is known of it: its id may be empty. If absent, the first such GPU is an
  // error.
  std::function<void(const DeviceInfo& gpu, const Error& error)> on_failure;
};

// "sm=32": the value of a --slice flag, as slice_sms. kInvalidArgument.
Result<std::int64_t> ParseSlice(std::string_view text);

// kUnavailable without a driver, cuDNN or a GPU, saying which; kUnimplemented
// if one of them is too old, saying what is needed; kInvalidArgument if an
// ordinal is not one of the GPUs'.
Result<std::vector<std::unique_ptr<Device>>> OpenCudnnDevices(
    const CudnnOptions& options);

namespace cudnn {
class CudnnHandle;
// The handle (device/cudnn/handle.h) of `device`, for other computations on the
// same stream; null if it is no such device.
CudnnHandle* HandleOf(Device& device);
}  // namespace cudnn

// The GPU of a context (a CUcontext) that the host program made and that
// outlives the device: the primary context, or a green one, and then the device
// is a slice. The device has its own stream and cuDNN handle.
// `options` choose what is listed; their other fields do not matter.
// kFailedPrecondition if the context is null or unusable; otherwise as above.
Result<std::unique_ptr<Device>> OpenCudnnDeviceIn(void* context,
                                                  const CudnnOptions& options);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_CUDNN_CUDNN_DEVICE_H_
