#include "device/cudnn/flat_tensor.h"

#include <array>
#include <limits>

namespace ucudnn::cudnn {

Result<std::unique_ptr<FlatTensor>> FlatTensor::Create(CudnnHandle& handle,
                                                       int rows, int columns,
                                                       cudnnDataType_t type) {
  const std::array<int, 4> dims = {rows, 1, 1, columns};
  const std::array<int, 4> strides = {columns, columns, columns, 1};
  UCUDNN_ASSIGN_OR_RETURN(auto tensor,
                          CreateTensor(handle, type, dims, strides));
  return std::unique_ptr<FlatTensor>(new FlatTensor(handle, std::move(tensor)));
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

Status FlatTensor::Scale(void* data, float factor) const {
  return handle_.Call(handle_.api().ScaleTensor, handle_.get(),
                      descriptor_.get(), data, &factor);
}

Status FlatTensor::Add(float alpha, const void* addend, float beta,
                       void* data) const {
  return handle_.Call(handle_.api().AddTensor, handle_.get(), &alpha,
                      descriptor_.get(), addend, &beta, descriptor_.get(),
                      data);
}

}  // namespace ucudnn::cudnn
