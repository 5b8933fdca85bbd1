#ifndef UCUDNN_DEVICE_CUDNN_DESCRIPTOR_H_
#define UCUDNN_DEVICE_CUDNN_DESCRIPTOR_H_

// Descriptors of cuDNN's functions, destroyed with their owner.

#include <cudnn.h>

#include <memory>
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

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DESCRIPTOR_H_
