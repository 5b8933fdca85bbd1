#include "device/cudnn/graph/backend_descriptor.h"

#include <algorithm>
#include <utility>

namespace ucudnn::cudnn {

Result<BackendDescriptor> BackendDescriptor::Create(
    CudnnHandle& handle, cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  UCUDNN_RETURN_IF_ERROR(
      handle.Check(handle.api().BackendCreateDescriptor(type, &descriptor),
                   "cudnnBackendCreateDescriptor"));
  return BackendDescriptor(handle, descriptor);
}

BackendDescriptor::BackendDescriptor(BackendDescriptor&& other) noexcept
    : handle_(other.handle_),
      descriptor_(std::exchange(other.descriptor_, nullptr)) {}

BackendDescriptor::~BackendDescriptor() {
  if (descriptor_ == nullptr) return;
  // Destroying a plan may unload its code, which must happen in its context; in
  // a lost one nothing can be released.
  if (const auto scope = handle_->Enter()) {
    (void)handle_->api().BackendDestroyDescriptor(descriptor_);
  }
}

Status BackendDescriptor::Set(cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type,
                              std::int64_t count, const void* values) {
  return handle_->Check(handle_->api().BackendSetAttribute(descriptor_, name,
                                                           type, count, values),
                        "cudnnBackendSetAttribute");
}

Status BackendDescriptor::SetDescriptors(
    cudnnBackendAttributeName_t name,
    std::span<const BackendDescriptor> values) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const BackendDescriptor& value : values) raw.push_back(value.get());
  return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             static_cast<std::int64_t>(raw.size()), raw.data());
}

Status BackendDescriptor::SetHandle(cudnnBackendAttributeName_t name) {
  const cudnnHandle_t handle = handle_->get();
  return Set(name, CUDNN_TYPE_HANDLE, 1, &handle);
}

Status BackendDescriptor::Finalize() {
  return handle_->Check(handle_->api().BackendFinalize(descriptor_),
                        "cudnnBackendFinalize");
}

Result<std::int64_t> BackendDescriptor::Get(cudnnBackendAttributeName_t name,
                                            cudnnBackendAttributeType_t type,
                                            std::int64_t capacity,
                                            void* values) const {
  std::int64_t count = 0;
  UCUDNN_RETURN_IF_ERROR(
      handle_->Check(handle_->api().BackendGetAttribute(
                         descriptor_, name, type, capacity, &count, values),
                     "cudnnBackendGetAttribute"));
  return count;
}

Result<std::int64_t> BackendDescriptor::GetInt(
    cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0;
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t count,
                          Get(name, CUDNN_TYPE_INT64, 1, &value));
  if (count != 1) {
    return Fail(Code::kInternal, "cuDNN attribute {} has {} values, not 1",
                static_cast<int>(name), count);
  }
  return value;
}

Result<std::vector<BackendDescriptor>> BackendDescriptor::GetDescriptors(
    cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
    std::int64_t capacity) const {
  if (capacity < 0) {
    UCUDNN_ASSIGN_OR_RETURN(
        capacity, Get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr));
  }
  std::vector<BackendDescriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < capacity; ++i) {
    UCUDNN_ASSIGN_OR_RETURN(auto descriptor, Create(*handle_, type));
    raw.push_back(descriptor.get());
    descriptors.push_back(std::move(descriptor));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const std::int64_t count,
      Get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, capacity, raw.data()));
  const auto kept = static_cast<std::size_t>(std::min(count, capacity));
  while (descriptors.size() > kept) descriptors.pop_back();
  return descriptors;
}

}  // namespace ucudnn::cudnn
