#ifndef UCUDNN_DEVICE_CUDNN_DESCRIPTOR_H_
#define UCUDNN_DEVICE_CUDNN_DESCRIPTOR_H_

// Descriptors of cuDNN's functions, destroyed with their owner.

#include <cudnn.h>

#include <memory>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "device/cudnn/handle.h"

namespace ucudnn::cudnn {

template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, cudnnStatus_t (*)(T)>;

// `call` names `create` in errors.
template <class T>
Result<Owned<T>> Create(CudnnHandle& handle, cudnnStatus_t (*create)(T*),
                        cudnnStatus_t (*destroy)(T), std::string_view call) {
  T descriptor = nullptr;
  UCUDNN_RETURN_IF_ERROR(handle.Check(create(&descriptor), call));
  return Owned<T>(descriptor, destroy);
}

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DESCRIPTOR_H_
