#ifndef UCUDNN_DEVICE_CUDNN_LEGACY_QUERIES_H_
#define UCUDNN_DEVICE_CUDNN_LEGACY_QUERIES_H_

// What cuDNN's first interface is asked about a convolution, whatever its
// operation: how much workspace an algorithm needs, and which one it would
// take. Costs no time on the device.

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

// What cuDNN answers when asked for an algorithm's workspace; its refusals are
// how it says that an algorithm does not solve a problem. `algorithm` is of the
// operation's enumeration.
cudnnStatus_t QueryWorkspace(const CudnnApi& api, cudnnHandle_t handle,
                             const LegacyDescriptors& descriptors,
                             int algorithm, std::size_t* size);

// An algorithm as the heuristics name it. They have an arithmetic in mind that
// need not be the one of the convolution's descriptor.
struct LegacySuggestion {
  int algorithm = 0;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

// All that the heuristics name, the fastest first as they believe; may name
// what cuDNN then refuses. `suggestions` is left empty if cuDNN fails.
cudnnStatus_t QuerySuggestions(const CudnnApi& api, cudnnHandle_t handle,
                               const LegacyDescriptors& descriptors,
                               std::vector<LegacySuggestion>* suggestions);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_LEGACY_QUERIES_H_
