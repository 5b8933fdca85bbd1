#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_ENTRY_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_ENTRY_H_

// The entry points for cuDNN's convolution functions, shared by the drop-in
// handle and the preload shim. `plain` calls cuDNN with the program's
// arguments; it runs whenever ucudnn has nothing better. Nothing throws or ends
// the process.

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

// cuDNN's first choice of algorithm for a call.
struct OwnChoice {
  OwnCall call;
  std::size_t workspace = 0;
};

// A division offered to the program: its time, the workspace to bring, and the
// algorithm under whose name to ask for it.
struct Offer {
  int algorithm = 0;
  std::size_t workspace = 0;
  float milliseconds = -1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  bool deterministic = false;
};

// False if there is no offer. An offer needs at most `most` bytes, and no more
// than HandleState::OfferLimit. Without a limit of the user's it is faster than
// cuDNN's own choice. `own` is null if cuDNN names no algorithm.
bool MakeOffer(cudnnHandle_t handle, const CallDescriptors& descriptors,
               std::size_t most, const OwnChoice* own, Offer* offer);

// cudnn(Get|Find)Convolution*Algorithm(_v7|Ex): lists the offer first, if there
// is one, then cuDNN's results, `requested` in total at most.
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

// cudnnGetConvolution*WorkspaceSize: the offer's workspace for the algorithm
// that names the offer, cuDNN's for any other. Without a limit, only offers
// already made count: otherwise a program that uses an algorithm of its own
// choice, or asks for the size of all algorithms, would bring too little
// workspace.
cudnnStatus_t WorkspaceSize(cudnnHandle_t handle,
                            const CallDescriptors& descriptors, int algorithm,
                            std::size_t* size, Callable<cudnnStatus_t()> plain);

// cudnnConvolutionForward and its counterparts; operands as in ConvArgs.
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
