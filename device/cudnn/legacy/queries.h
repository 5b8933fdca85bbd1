#ifndef UCUDNN_DEVICE_CUDNN_LEGACY_QUERIES_H_
#define UCUDNN_DEVICE_CUDNN_LEGACY_QUERIES_H_

// Queries to cuDNN's legacy API for any of the three operations: how much
// workspace an algorithm needs, and which algorithms it suggests. Takes no time
// on the device.

#include <cudnn.h>

#include <cstddef>
#include <vector>

#include "base/conv_problem.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn::cudnn {

// The descriptors of a convolution, in the words of its forward pass: `input`
// is x or dx, `filter` w or dw, `output` y or dy.
struct LegacyDescriptors {
  ConvOp op = ConvOp::kForward;
  cudnnTensorDescriptor_t input = nullptr;
  cudnnFilterDescriptor_t filter = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnTensorDescriptor_t output = nullptr;
};

// cuDNN's answer to a query for an algorithm's workspace; a refusal means that
// the algorithm does not solve the problem. `algorithm` is of the operation's
// enumeration.
cudnnStatus_t QueryWorkspace(const CudnnApi& api, cudnnHandle_t handle,
                             const LegacyDescriptors& descriptors,
                             int algorithm, std::size_t* size);

// An algorithm as the heuristics name it. Its arithmetic may differ from that
// of the convolution's descriptor.
struct LegacySuggestion {
  int algorithm = 0;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

// All algorithms that the heuristics name, the presumed fastest first; cuDNN
// may still refuse some of them. `suggestions` is left empty if cuDNN fails.
cudnnStatus_t QuerySuggestions(const CudnnApi& api, cudnnHandle_t handle,
                               const LegacyDescriptors& descriptors,
                               std::vector<LegacySuggestion>* suggestions);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_LEGACY_QUERIES_H_
