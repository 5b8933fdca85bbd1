#ifndef UCUDNN_CLIENT_CONV_BACKEND_H_
#define UCUDNN_CLIENT_CONV_BACKEND_H_

// A device whose convolutions run on streams of the caller's, who may be any
// program: nothing of the process is changed but what the calls say.
//
// One thread at a time uses a backend and what its device made.

#include <memory>

#include "base/result.h"
#include "device/device.h"

namespace ucudnn {

class ConvBackend {
 public:
  virtual ~ConvBackend() = default;

  // Measures on a stream of its own and prepares convolutions.
  virtual Device& device() = 0;
  // From now on convolutions run on `stream`: of a GPU, a CUstream or
  // cudaStream_t, also while it is captured; of a CPU, which has none, null,
  // else kInvalidArgument.
  virtual Status UseStream(void* stream) = 0;
  // Before the device measures or prepares anything.
  virtual Status UseOwnStream() = 0;
};

// oneDNN on `threads` threads; 0: one for each core of this process.
// kUnavailable in a build without oneDNN; else as OpenOneDnnDevice.
Result<std::unique_ptr<ConvBackend>> OpenCpuBackend(int threads);

// cuDNN on the GPU that is current in this thread, in the context that is
// current; in that of a green context if `stream` belongs to one, so that the
// slice is measured. The context must outlive the backend. With
// `deterministic` only the legacy API is used, whose algorithms are documented
// to return the same bits each time or not; with UCUDNN_BRANCHES=1 also in two
// parallel branches. kUnavailable in a build without cuDNN, without a driver or
// cuDNN; kFailedPrecondition without a context.
Result<std::unique_ptr<ConvBackend>> OpenGpuBackend(void* stream,
                                                    bool deterministic);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONV_BACKEND_H_
