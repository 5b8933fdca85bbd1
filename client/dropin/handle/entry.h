#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_ENTRY_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_ENTRY_H_

// What happens when a program calls one of cuDNN's functions for convolutions,
// by the drop-in handle or through the preload shim. `plain` calls cuDNN with
// what the program gave; it is how everything ends that we do not do better.
//
// Nothing throws, nothing ends the process.

#include <cudnn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "client/dropin/handle/call.h"
#include "client/dropin/handle/handle_state.h"
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

// What cuDNN names first when it is asked for an algorithm.
struct OwnChoice {
  OwnCall call;
  std::size_t workspace = 0;
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

// False if there is none. Needs `most` bytes at most, and no more than the
// handle's limit; without one, no more than cuDNN's own choice, or than
// kDefaultWorkspaceLimit if that is more, and then it is faster than that
// choice. `own` is null if cuDNN names nothing.
bool MakeOffer(cudnnHandle_t handle, const CallDescriptors& descriptors,
               std::size_t most, const OwnChoice* own, Offer* offer);

// cudnn(Get|Find)Convolution*Algorithm(_v7|Ex): the offer first, if there is
// one, then what cuDNN gives, as many as were asked for.
template <class Perf, class Plain>
cudnnStatus_t Algorithms(cudnnHandle_t handle,
                         const CallDescriptors& descriptors, std::size_t most,
                         int requested, int* returned, Perf* results,
                         const Plain& plain) {
  if (ReentrancyGuard::is_active()) return plain(requested, returned, results);
  {
    const ReentrancyGuard guard;
    const cudnnStatus_t status = plain(requested, returned, results);
    if (status != CUDNN_STATUS_SUCCESS || requested < 1) return status;
  }
  Perf* const end = results + *returned;
  const Perf* const first = std::find_if(results, end, [](const Perf& perf) {
    return perf.status == CUDNN_STATUS_SUCCESS;
  });
  OwnChoice own;
  if (first != end) own = {{first->algo, first->mathType}, first->memory};
  Offer offer;
  if (!MakeOffer(handle, descriptors, most, first == end ? nullptr : &own,
                 &offer)) {
    return CUDNN_STATUS_SUCCESS;
  }
  const int others = std::min(*returned, requested - 1);
  std::move_backward(results, results + others, results + others + 1);
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
// names, cuDNN's for any other. Where no limit is named, only what was offered
// before is: else a program that has an algorithm of its own, or asks how much
// all of them need, would bring too little for it.
cudnnStatus_t WorkspaceSize(cudnnHandle_t handle,
                            const CallDescriptors& descriptors, int algorithm,
                            std::size_t* size, Callable<cudnnStatus_t()> plain);

// cudnnConvolutionForward and its siblings; operands as in ConvArgs.
struct Execution {
  int algorithm = 0;
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

#endif  // UCUDNN_CLIENT_DROPIN_HANDLE_ENTRY_H_
