#ifndef UCUDNN_CLIENT_CUDNN_ENTRY_H_
#define UCUDNN_CLIENT_CUDNN_ENTRY_H_

// What happens when a program calls one of cuDNN's functions for convolutions,
// by the drop-in handle or through the preload shim. `plain` calls cuDNN with
// what the program gave; it is how everything ends that we do not do better.
//
// Nothing throws, nothing ends the process.

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "client/cudnn/call.h"
#include "client/cudnn/handle_state.h"
#include "device/device.h"

namespace ucudnn::cudnn {

inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// Refers to a callable for the duration of a call, without allocating.
template <class Signature>
class Callable;
template <class R, class... Args>
class Callable<R(Args...)> {
 public:
  template <class F>
  Callable(const F& f)  // NOLINT(google-explicit-constructor): a reference
      : object_(&f), call_([](const void* object, Args... args) -> R {
          return (*static_cast<const F*>(object))(args...);
        }) {}
  R operator()(Args... args) const { return call_(object_, args...); }

 private:
  const void* object_;
  R (*call_)(const void*, Args...);
};

// What a program is offered for a convolution: the division's time, the
// workspace that it must bring, and an algorithm that it shall ask for.
struct Offer {
  int algorithm = 0;
  std::size_t workspace = 0;
  float milliseconds = -1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  bool deterministic = false;
};

// False if there is none. Under a limit of `most` bytes, if that is less than
// the handle's.
bool MakeOffer(cudnnHandle_t handle, const CallDescriptors& descriptors,
               std::size_t most, Offer* offer);

// cudnn(Get|Find)Convolution*Algorithm(_v7|Ex): the offer first, then what
// cuDNN gives, as many as were asked for.
template <class Perf, class Plain>
cudnnStatus_t Algorithms(cudnnHandle_t handle,
                         const CallDescriptors& descriptors, std::size_t most,
                         int requested, int* returned, Perf* results,
                         const Plain& plain) {
  Offer offer;
  if (requested < 1 || returned == nullptr || results == nullptr ||
      !MakeOffer(handle, descriptors, most, &offer)) {
    return plain(requested, returned, results);
  }
  int others = 0;
  if (requested > 1) {
    const Inside inside;
    if (const cudnnStatus_t status = plain(requested - 1, &others, results + 1);
        status != CUDNN_STATUS_SUCCESS) {
      return plain(requested, returned, results);
    }
  }
  results[0] = {};
  results[0].algo = static_cast<decltype(Perf::algo)>(offer.algorithm);
  results[0].status = CUDNN_STATUS_SUCCESS;
  results[0].time = offer.milliseconds;
  results[0].memory = offer.workspace;
  results[0].determinism =
      offer.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
  results[0].mathType = offer.math;
  *returned = others + 1;
  return CUDNN_STATUS_SUCCESS;
}

// cudnnGetConvolution*WorkspaceSize: the offer's for the algorithm that it
// names, cuDNN's for any other.
cudnnStatus_t WorkspaceSize(cudnnHandle_t handle,
                            const CallDescriptors& descriptors, int algorithm,
                            std::size_t* size, Callable<cudnnStatus_t()> plain);

// cudnnConvolutionForward and its siblings; operands as in ConvArgs.
struct Execution {
  const void* alpha = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  const void* beta = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_size = 0;
};
cudnnStatus_t Convolve(cudnnHandle_t handle, const CallDescriptors& descriptors,
                       const Execution& execution,
                       Callable<cudnnStatus_t()> plain);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_CLIENT_CUDNN_ENTRY_H_
