#ifndef UCUDNN_DEVICE_CUDNN_DESCRIPTOR_H_
#define UCUDNN_DEVICE_CUDNN_DESCRIPTOR_H_

// Descriptors of cuDNN's functions, destroyed with their owner.

#include <cudnn.h>

#include <memory>
#include <span>
#include <type_traits>

#include "base/result.h"
#include "device/cudnn/handle.h"

namespace ucudnn::cudnn {

template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, cudnnStatus_t (*)(T)>;

template <class T>
Result<Owned<T>> Create(CudnnHandle& handle,
                        const Function<cudnnStatus_t(T*)>& create,
                        const Function<cudnnStatus_t(T)>& destroy) {
  T descriptor = nullptr;
  UCUDNN_RETURN_IF_ERROR(handle.Call(create, &descriptor));
  return Owned<T>(descriptor, destroy.pointer());
}

// A tensor with these strides, in elements.
inline Result<Owned<cudnnTensorDescriptor_t>> CreateTensor(
    CudnnHandle& handle, cudnnDataType_t type, std::span<const int> dims,
    std::span<const int> strides) {
  const CudnnApi& api = handle.api();
  UCUDNN_ASSIGN_OR_RETURN(
      auto tensor,
      Create(handle, api.CreateTensorDescriptor, api.DestroyTensorDescriptor));
  UCUDNN_RETURN_IF_ERROR(handle.Call(api.SetTensorNdDescriptor, tensor.get(),
                                     type, static_cast<int>(dims.size()),
                                     dims.data(), strides.data()));
  return tensor;
}

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DESCRIPTOR_H_
