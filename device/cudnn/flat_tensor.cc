#include "device/cudnn/flat_tensor.h"

#include <array>
#include <limits>

namespace ucudnn::cudnn {

Result<std::unique_ptr<FlatTensor>> FlatTensor::Create(CudnnHandle& handle,
                                                       int rows, int columns,
                                                       cudnnDataType_t type) {
  std::unique_ptr<FlatTensor> result(new FlatTensor(handle));
  const std::array<int, 4> dims = {rows, 1, 1, columns};
  const std::array<int, 4> strides = {columns, columns, columns, 1};
  const CudnnApi& api = handle.api();
  UCUDNN_RETURN_IF_ERROR(
      handle.Call(api.CreateTensorDescriptor, &result->descriptor_));
  UCUDNN_RETURN_IF_ERROR(handle.Call(api.SetTensorNdDescriptor,
                                     result->descriptor_, type, 4, dims.data(),
                                     strides.data()));
  return result;
}

Result<std::unique_ptr<FlatTensor>> FlatTensor::Create(CudnnHandle& handle,
                                                       std::int64_t count,
                                                       cudnnDataType_t type) {
  if (count < 0 || count > std::numeric_limits<int>::max()) {
    return Fail(Code::kInvalidArgument, "{} values; 0 to {} are accepted",
                count, std::numeric_limits<int>::max());
  }
  constexpr std::int64_t kRow = 4096;
  const std::int64_t rows = count % kRow == 0 ? count / kRow : 1;
  return Create(handle, static_cast<int>(rows), static_cast<int>(count / rows),
                type);
}

FlatTensor::~FlatTensor() {
  if (descriptor_ != nullptr) {
    (void)handle_.api().DestroyTensorDescriptor(descriptor_);
  }
}

Status FlatTensor::Scale(void* data, float factor) const {
  return handle_.Call(handle_.api().ScaleTensor, handle_.get(), descriptor_,
                      data, &factor);
}

Status FlatTensor::Add(float alpha, const void* addend, float beta,
                       void* data) const {
  return handle_.Call(handle_.api().AddTensor, handle_.get(), &alpha,
                      descriptor_, addend, &beta, descriptor_, data);
}

}  // namespace ucudnn::cudnn
