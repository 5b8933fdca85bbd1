#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_BACKEND_DESCRIPTOR_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_BACKEND_DESCRIPTOR_H_

// Objects of cuDNN's graph API: attributes are set, then the object is
// finalised, then other objects refer to it.
//
//   UCUDNN_ASSIGN_OR_RETURN(
//       auto engine, BackendBuilder(handle, CUDNN_BACKEND_ENGINE_DESCRIPTOR)
//                        .Set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph)
//                        .Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, index)
//                        .Finalize());

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "device/cudnn/handle.h"

namespace ucudnn::cudnn {

// Objects that it refers to must outlive it.
class BackendDescriptor {
 public:
  static Result<BackendDescriptor> Create(CudnnHandle& handle,
                                          cudnnBackendDescriptorType_t type);
  BackendDescriptor(BackendDescriptor&& other) noexcept;
  BackendDescriptor& operator=(BackendDescriptor&&) = delete;
  ~BackendDescriptor();

  // Reads an attribute with any number of elements, up to `capacity` of them
  // into `values`; returns how many there were.
  Result<std::int64_t> Get(cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type,
                           std::int64_t capacity, void* values) const;
  Result<std::int64_t> GetInt(cudnnBackendAttributeName_t name) const;
  // The attribute's objects, which cuDNN copies into new ones of `type`: as
  // many as there are, at most `capacity`; with `capacity` < 0 cuDNN is asked
  // for the number first.
  Result<std::vector<BackendDescriptor>> GetDescriptors(
      cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
      std::int64_t capacity) const;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  BackendDescriptor(CudnnHandle& handle, cudnnBackendDescriptor_t descriptor)
      : handle_(&handle), descriptor_(descriptor) {}

  CudnnHandle* handle_;
  cudnnBackendDescriptor_t descriptor_;
};

// How cuDNN names the type of an attribute.
template <class T>
constexpr cudnnBackendAttributeType_t AttributeType() {
  if constexpr (std::is_same_v<T, std::int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, std::int32_t>) return CUDNN_TYPE_INT32;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, void*>) return CUDNN_TYPE_VOID_PTR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>)
    return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>)
    return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendKnobType_t>)
    return CUDNN_TYPE_KNOB_TYPE;
}

class BackendBuilder {
 public:
  BackendBuilder(CudnnHandle& handle, cudnnBackendDescriptorType_t type)
      : handle_(handle), made_(BackendDescriptor::Create(handle, type)) {}

  template <class T>
  BackendBuilder& Set(cudnnBackendAttributeName_t name, const T& value) {
    return SetAll(name, std::span<const T>(&value, 1));
  }
  BackendBuilder& Set(cudnnBackendAttributeName_t name,
                      const BackendDescriptor& value) {
    return SetAll(name, std::span(&value, 1));
  }
  template <class T, std::size_t n>
  BackendBuilder& SetAll(cudnnBackendAttributeName_t name,
                         std::span<T, n> values) {
    return SetRaw(name, AttributeType<std::remove_const_t<T>>(),
                  std::ssize(values), values.data());
  }
  BackendBuilder& SetAll(cudnnBackendAttributeName_t name,
                         std::span<const BackendDescriptor> values);

  // Sets what cuDNN may ignore or refuse.
  template <class T>
  void Hint(cudnnBackendAttributeName_t name, const T& value) {
    const Status before = set_;
    Set(name, value);
    set_ = before;
  }
  // The object, or the first error.
  Result<BackendDescriptor> Finalize();

 private:
  BackendBuilder& SetRaw(cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, std::int64_t count,
                         const void* values);

  CudnnHandle& handle_;
  Result<BackendDescriptor> made_;
  Status set_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_BACKEND_DESCRIPTOR_H_
