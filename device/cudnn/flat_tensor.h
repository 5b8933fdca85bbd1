#ifndef UCUDNN_DEVICE_CUDNN_FLAT_TENSOR_H_
#define UCUDNN_DEVICE_CUDNN_FLAT_TENSOR_H_

// A packed tensor viewed as rows of equal length, whatever its layout, for
// cuDNN's operators on single elements. They are enqueued on the handle's
// stream.

#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"
#include "device/cudnn/descriptor.h"
#include "device/cudnn/handle.h"

namespace ucudnn::cudnn {

class FlatTensor {
 public:
  // `handle` must outlive the result.
  static Result<std::unique_ptr<FlatTensor>> Create(CudnnHandle& handle,
                                                    int rows, int columns,
                                                    cudnnDataType_t type);
  // The same for `count` elements, in rows of a length that cuDNN is fast at if
  // they can be divided so. kInvalidArgument for more than cuDNN's tensors
  // have.
  static Result<std::unique_ptr<FlatTensor>> Create(CudnnHandle& handle,
                                                    std::int64_t count,
                                                    cudnnDataType_t type);
  Status Scale(void* data, float factor) const;
  // data = alpha * addend + beta * data
  Status Add(float alpha, const void* addend, float beta, void* data) const;

 private:
  FlatTensor(CudnnHandle& handle, Owned<cudnnTensorDescriptor_t> descriptor)
      : handle_(handle), descriptor_(std::move(descriptor)) {}

  CudnnHandle& handle_;
  Owned<cudnnTensorDescriptor_t> descriptor_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_FLAT_TENSOR_H_
