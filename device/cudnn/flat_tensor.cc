#include "device/cudnn/flat_tensor.h"

#include <array>

namespace ucudnn::cudnn {

Result<std::unique_ptr<FlatTensor>> FlatTensor::Create(CudnnHandle& handle,
                                                       int rows, int columns,
                                                       cudnnDataType_t type) {
  std::unique_ptr<FlatTensor> result(new FlatTensor(handle));
  const std::array<int, 4> dims = {rows, 1, 1, columns};
  const std::array<int, 4> strides = {columns, columns, columns, 1};
  const CudnnApi& api = handle.api();
  UCUDNN_RETURN_IF_ERROR(
      handle.Check(api.CreateTensorDescriptor(&result->descriptor_),
                   "cudnnCreateTensorDescriptor"));
  UCUDNN_RETURN_IF_ERROR(
      handle.Check(api.SetTensorNdDescriptor(result->descriptor_, type, 4,
                                             dims.data(), strides.data()),
                   "cudnnSetTensorNdDescriptor"));
  return result;
}

FlatTensor::~FlatTensor() {
  if (descriptor_ != nullptr) {
    (void)handle_.api().DestroyTensorDescriptor(descriptor_);
  }
}

Status FlatTensor::Scale(void* data, float factor) const {
  return handle_.Check(
      handle_.api().ScaleTensor(handle_.get(), descriptor_, data, &factor),
      "cudnnScaleTensor");
}

Status FlatTensor::Add(float alpha, const void* addend, float beta,
                       void* data) const {
  return handle_.Check(
      handle_.api().AddTensor(handle_.get(), &alpha, descriptor_, addend, &beta,
                              descriptor_, data),
      "cudnnAddTensor");
}

}  // namespace ucudnn::cudnn
