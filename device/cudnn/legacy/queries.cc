#include "device/cudnn/legacy/queries.h"

#include <algorithm>
#include <array>

namespace ucudnn::cudnn {
namespace {

// More than all algorithms with every arithmetic.
constexpr int kMaxSuggestions = 32;

// Calls `get` with `operands` and room for the results.
template <class Perf, class Get, class... Operands>
cudnnStatus_t Collect(const Get& get,
                      std::vector<LegacySuggestion>* suggestions,
                      Operands... operands) {
  std::array<Perf, kMaxSuggestions> results = {};
  int count = 0;
  const cudnnStatus_t status =
      get(operands..., kMaxSuggestions, &count, results.data());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  count = std::clamp(count, 0, kMaxSuggestions);
  for (int i = 0; i < count; ++i) {
    const Perf& result = results[static_cast<std::size_t>(i)];
    suggestions->push_back({result.algo, result.mathType});
  }
  return status;
}

}  // namespace

cudnnStatus_t QueryWorkspace(const CudnnApi& api, cudnnHandle_t handle,
                             const LegacyDescriptors& d, int algorithm,
                             std::size_t* size) {
  switch (d.op) {
    case ConvOp::kForward:
      return api.GetForwardWorkspaceSize(
          handle, d.input, d.filter, d.convolution, d.output,
          static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), size);
    case ConvOp::kBackwardData:
      return api.GetBackwardDataWorkspaceSize(
          handle, d.filter, d.output, d.convolution, d.input,
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), size);
    case ConvOp::kBackwardFilter:
      return api.GetBackwardFilterWorkspaceSize(
          handle, d.input, d.output, d.convolution, d.filter,
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), size);
  }
  return CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t QuerySuggestions(const CudnnApi& api, cudnnHandle_t handle,
                               const LegacyDescriptors& d,
                               std::vector<LegacySuggestion>* suggestions) {
  suggestions->clear();
  switch (d.op) {
    case ConvOp::kForward:
      return Collect<cudnnConvolutionFwdAlgoPerf_t>(
          api.GetForwardAlgorithm, suggestions, handle, d.input, d.filter,
          d.convolution, d.output);
    case ConvOp::kBackwardData:
      return Collect<cudnnConvolutionBwdDataAlgoPerf_t>(
          api.GetBackwardDataAlgorithm, suggestions, handle, d.filter, d.output,
          d.convolution, d.input);
    case ConvOp::kBackwardFilter:
      return Collect<cudnnConvolutionBwdFilterAlgoPerf_t>(
          api.GetBackwardFilterAlgorithm, suggestions, handle, d.input,
          d.output, d.convolution, d.filter);
  }
  return CUDNN_STATUS_BAD_PARAM;
}

}  // namespace ucudnn::cudnn
