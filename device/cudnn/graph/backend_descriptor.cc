#include "device/cudnn/graph/backend_descriptor.h"

#include <algorithm>
#include <utility>

namespace ucudnn::cudnn {

Result<BackendDescriptor> BackendDescriptor::Create(
    CudnnHandle& handle, cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  UCUDNN_RETURN_IF_ERROR(
      handle.Call(handle.api().BackendCreateDescriptor, type, &descriptor));
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

BackendBuilder& BackendBuilder::SetRaw(cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       std::int64_t count, const void* values) {
  if (made_ && set_) {
    set_ = handle_.Call(handle_.api().BackendSetAttribute, made_->get(), name,
                        type, count, values);
  }
  return *this;
}

BackendBuilder& BackendBuilder::SetAll(
    cudnnBackendAttributeName_t name,
    std::span<const BackendDescriptor> values) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const BackendDescriptor& value : values) raw.push_back(value.get());
  return SetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(raw),
                raw.data());
}

Result<BackendDescriptor> BackendBuilder::Finalize() {
  UCUDNN_RETURN_IF_ERROR(set_);
  if (made_) {
    UCUDNN_RETURN_IF_ERROR(
        handle_.Call(handle_.api().BackendFinalize, made_->get()));
  }
  return std::move(made_);
}

Result<std::int64_t> BackendDescriptor::Get(cudnnBackendAttributeName_t name,
                                            cudnnBackendAttributeType_t type,
                                            std::int64_t capacity,
                                            void* values) const {
  std::int64_t count = 0;
  UCUDNN_RETURN_IF_ERROR(handle_->Call(handle_->api().BackendGetAttribute,
                                       descriptor_, name, type, capacity,
                                       &count, values));
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
