#include "client/gpu_gradients.h"

#include <algorithm>
#include <cstdint>

#include "device/cudnn/context.h"
#include "device/cudnn/libraries.h"

namespace ucudnn {
namespace {

using cudnn::DriverApi;

// Large enough that copying is limited by the bus alone.
constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

Status Check(const DriverApi& driver, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return {};
  return tl::unexpected<Error>(cudnn::DescribeError(driver, result, call));
}

}  // namespace

struct GpuGradients::Staging {
  const DriverApi* driver = nullptr;
  void* pinned = nullptr;

  ~Staging() {
    // At the end of the process the driver may be gone, and the memory too.
    if (pinned != nullptr) driver->MemFreeHost(pinned);
  }
  static Result<std::unique_ptr<Staging>> Make() {
    UCUDNN_ASSIGN_OR_RETURN(const cudnn::Libraries* libraries,
                            cudnn::LoadedLibraries());
    auto staging = std::make_unique<Staging>();
    staging->driver = &libraries->driver;
    if (staging->driver->MemHostAlloc == nullptr ||
        staging->driver->MemFreeHost == nullptr) {
      return Fail(Code::kUnimplemented, "the driver has no pinned memory");
    }
    UCUDNN_RETURN_IF_ERROR(
        Check(*staging->driver,
              staging->driver->MemHostAlloc(&staging->pinned, kPieceBytes, 0),
              "cuMemHostAlloc"));
    return staging;
  }
};

GpuGradients::GpuGradients() = default;
GpuGradients::~GpuGradients() = default;

template <class T>
Status GpuGradients::AllReduce(void* gradients, std::size_t count, void* stream,
                               const Sum<T>& sum) {
  if (staging_ == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(staging_, Staging::Make());
  }
  const DriverApi& driver = *staging_->driver;
  const auto queue = static_cast<CUstream>(stream);
  const auto base =
      static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(gradients));
  constexpr std::size_t kPiece = kPieceBytes / sizeof(T);
  for (std::size_t first = 0; first < count; first += kPiece) {
    const std::size_t size = std::min(kPiece, count - first);
    const CUdeviceptr at = base + first * sizeof(T);
    UCUDNN_RETURN_IF_ERROR(Check(
        driver,
        driver.MemcpyDtoHAsync(staging_->pinned, at, size * sizeof(T), queue),
        "cuMemcpyDtoHAsync"));
    UCUDNN_RETURN_IF_ERROR(
        Check(driver, driver.StreamSynchronize(queue), "cuStreamSynchronize"));
    UCUDNN_RETURN_IF_ERROR(
        sum(std::span(static_cast<T*>(staging_->pinned), size)));
    UCUDNN_RETURN_IF_ERROR(Check(
        driver,
        driver.MemcpyHtoDAsync(at, staging_->pinned, size * sizeof(T), queue),
        "cuMemcpyHtoDAsync"));
    // The staging memory is used again.
    UCUDNN_RETURN_IF_ERROR(
        Check(driver, driver.StreamSynchronize(queue), "cuStreamSynchronize"));
  }
  return {};
}

template Status GpuGradients::AllReduce(void*, std::size_t, void*,
                                        const Sum<float>&);
template Status GpuGradients::AllReduce(void*, std::size_t, void*,
                                        const Sum<double>&);

}  // namespace ucudnn
