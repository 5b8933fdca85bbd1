#include "client/dropin/handle/entry.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "client/dropin/planner/planner.h"
#include "device/accuracy.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/legacy/queries.h"

namespace ucudnn::cudnn {
namespace {

// cuDNN's first suggestion that runs the whole batch within `limit`. False if
// there is none.
bool FindAlgorithm(const CudnnApi& api, cudnnHandle_t handle,
                   const LegacyDescriptors& descriptors, std::size_t limit,
                   int* algorithm) {
  const ReentrancyGuard guard;
  std::vector<LegacySuggestion> suggestions;
  (void)QuerySuggestions(api, handle, descriptors, &suggestions);
  for (const LegacySuggestion& suggestion : suggestions) {
    // A suggestion may be for other arithmetic than the descriptor's, which
    // calls use. So ask cuDNN for its size with the descriptor.
    std::size_t size = 0;
    if (QueryWorkspace(api, handle, descriptors, suggestion.algorithm, &size) ==
            CUDNN_STATUS_SUCCESS &&
        size <= limit) {
      *algorithm = suggestion.algorithm;
      return true;
    }
  }
  return false;
}

Bytes ToBytes(std::size_t size) {
  constexpr auto kMost = static_cast<std::size_t>(Bytes::Max().count());
  return Bytes(static_cast<std::int64_t>(std::min(size, kMost)));
}

bool TryOffer(cudnnHandle_t handle, const CallDescriptors& d, std::size_t most,
              const OwnChoice* own, Offer* offer) {
  HandleState* const state = StateOf(handle);
  if (state == nullptr) return false;
  const Bytes limit = state->OfferLimit(
      ToBytes(most), ToBytes(own == nullptr ? 0 : own->workspace));
  PreparedKernel* const kernel = state->Find(d, limit);
  if (kernel == nullptr ||
      (own != nullptr && !state->Beats(d, *kernel, own->call))) {
    return false;
  }
  offer->workspace = static_cast<std::size_t>(kernel->needed.count());
  if (kernel->algorithm < 0 &&
      !FindAlgorithm(state->api(), handle, d, offer->workspace,
                     &kernel->algorithm)) {
    return false;
  }
  offer->algorithm = kernel->algorithm;
  if (kernel->plan.time > Nanoseconds(0)) {
    offer->milliseconds =
        static_cast<float>(Microseconds(kernel->plan.time) / 1e3);
  }
  offer->deterministic = std::all_of(
      kernel->plan.micro_batches.begin(), kernel->plan.micro_batches.end(),
      [&](const MicroBatch& m) { return IsDeterministic(d.op, m.algorithm); });
  if (state->api().GetConvolutionMathType(d.convolution, &offer->math) !=
      CUDNN_STATUS_SUCCESS) {
    return false;
  }
  state->Offer(*kernel);
  return true;
}

// The offer behind the algorithm whose workspace a program asks for, made now
// or before.
bool TrySize(cudnnHandle_t handle, const CallDescriptors& d, Offer* offer) {
  HandleState* const state = StateOf(handle);
  if (state == nullptr) return false;
  if (state->names_limit()) {
    return TryOffer(handle, d, kNoLimit, nullptr, offer);
  }
  const PreparedKernel* const kernel = state->Offered(d);
  if (kernel == nullptr) return false;
  offer->algorithm = kernel->algorithm;
  offer->workspace = static_cast<std::size_t>(kernel->needed.count());
  return true;
}

cudnnStatus_t StatusOf(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument:
      return StatusHere(CUDNN_STATUS_BAD_PARAM);
    case Code::kUnimplemented:
      return StatusHere(CUDNN_STATUS_NOT_SUPPORTED);
    case Code::kResourceExhausted:
      return StatusHere(CUDNN_STATUS_ALLOC_FAILED);
    default:
      return StatusHere(CUDNN_STATUS_EXECUTION_FAILED);
  }
}

// Whether ucudnn handled the convolution, with the result in `*status`. If not,
// and `*begun` is false, nothing was enqueued.
bool TryConvolve(cudnnHandle_t handle, const CallDescriptors& d,
                 const Execution& e, cudnnStatus_t* status, bool* begun) {
  if (e.alpha == nullptr || e.beta == nullptr || e.a == nullptr ||
      e.b == nullptr || e.out == nullptr) {
    return false;  // cuDNN reports the error
  }
  HandleState* const state = StateOf(handle);
  if (state == nullptr) return false;
  const Bytes size = ToBytes(e.workspace == nullptr ? 0 : e.workspace_size);
  PreparedKernel* const kernel = state->Find(d, size);
  if (kernel == nullptr) return false;
  const bool is_offer = kernel->offer > 0 && kernel->algorithm == e.algorithm;
  if (!is_offer && !state->names_limit()) {
    OwnCall own = {e.algorithm, CUDNN_DEFAULT_MATH};
    if (state->api().GetConvolutionMathType(d.convolution, &own.math) !=
            CUDNN_STATUS_SUCCESS ||
        !state->Beats(d, *kernel, own)) {
      return false;
    }
  }
  const ConvArgs args = {e.a, e.b, e.out, *static_cast<const float*>(e.alpha),
                         *static_cast<const float*>(e.beta)};
  MicroBatchProgress progress;
  Status ran = state->Run(*kernel, args, e.workspace, size, &progress);
  if (ran) {
    *status = CUDNN_STATUS_SUCCESS;
    return true;
  }
  if (state->settings().verbose) {
    std::fprintf(stderr, "ucudnn: not run as planned: %s\n",
                 ran.error().message.c_str());
  }
  if (ran.error().code == Code::kDataLoss) {
    *status = StatusOf(ran.error());
    return true;
  }
  if (progress.images == 0) return false;
  *begun = true;
  const Status rest =
      state->RunRemaining(*kernel, args, progress.images, e.workspace, size);
  *status = rest ? CUDNN_STATUS_SUCCESS : StatusOf(ran.error());
  return true;
}

}  // namespace

bool MakeOffer(cudnnHandle_t handle, const CallDescriptors& descriptors,
               std::size_t most, const OwnChoice* own, Offer* offer) {
  try {
    return TryOffer(handle, descriptors, most, own, offer);
  } catch (...) {
    return false;  // out of memory
  }
}

cudnnStatus_t WorkspaceSize(cudnnHandle_t handle,
                            const CallDescriptors& descriptors, int algorithm,
                            std::size_t* size,
                            Callable<cudnnStatus_t()> plain) {
  if (size == nullptr || ReentrancyGuard::is_active()) return plain();
  try {
    Offer offer;
    if (TrySize(handle, descriptors, &offer) && offer.algorithm == algorithm) {
      *size = offer.workspace;
      return CUDNN_STATUS_SUCCESS;
    }
  } catch (...) {  // out of memory
  }
  return plain();
}

cudnnStatus_t Convolve(cudnnHandle_t handle, const CallDescriptors& descriptors,
                       const Execution& execution,
                       Callable<cudnnStatus_t()> plain) {
  if (ReentrancyGuard::is_active()) return plain();
  cudnnStatus_t status = CUDNN_STATUS_EXECUTION_FAILED;
  bool begun = false;
  try {
    if (TryConvolve(handle, descriptors, execution, &status, &begun)) {
      return status;
    }
  } catch (...) {  // out of memory
    if (begun) return StatusHere(CUDNN_STATUS_ALLOC_FAILED);
  }
  return plain();
}

}  // namespace ucudnn::cudnn
