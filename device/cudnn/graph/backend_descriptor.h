#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_BACKEND_DESCRIPTOR_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_BACKEND_DESCRIPTOR_H_

// One object of cuDNN's graph API: attributes are set, then it is finalised,
// then other objects refer to it. Move-only. Objects that it refers to must
// outlive it.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/cudnn/handle.h"

namespace ucudnn::cudnn {

class BackendDescriptor {
 public:
  static Result<BackendDescriptor> Create(CudnnHandle& handle,
                                          cudnnBackendDescriptorType_t type);
  BackendDescriptor(BackendDescriptor&& other) noexcept;
  BackendDescriptor& operator=(BackendDescriptor&&) = delete;
  ~BackendDescriptor();

  Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
             std::int64_t count, const void* values);
  Status SetInts(cudnnBackendAttributeName_t name,
                 std::span<const std::int64_t> values) {
    return Set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()),
               values.data());
  }
  Status SetInt(cudnnBackendAttributeName_t name, std::int64_t value) {
    return Set(name, CUDNN_TYPE_INT64, 1, &value);
  }
  Status SetDescriptor(cudnnBackendAttributeName_t name,
                       const BackendDescriptor& value) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
  }
  Status SetDescriptors(cudnnBackendAttributeName_t name,
                        std::span<const BackendDescriptor> values);
  Status SetHandle(cudnnBackendAttributeName_t name);
  Status Finalize();

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

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_BACKEND_DESCRIPTOR_H_
