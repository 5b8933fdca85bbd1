// libcudnn.so.9: normalizations fused with a sum and a ReLU, in bfloat16 and
// packed channels last.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/support/fake_gpu/fake_cudnn_types.h"
#include "tests/support/fake_gpu/fake_gpu.h"
#include "tests/support/fake_gpu/fake_work.h"

namespace {

using Tensor = cudnnTensorDescriptor_t;
constexpr std::size_t kForwardWorkspace = 64;
constexpr std::size_t kBackwardWorkspace = 128;

float Load(const void* data, std::int64_t i) {
  const std::uint32_t bits =
      std::uint32_t{static_cast<const std::uint16_t*>(data)[i]} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
void Store(void* data, std::int64_t i, double value) {
  const auto narrow = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  bits += 0x7fff + (bits >> 16 & 1);
  static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(bits >> 16);
}

bool IsSupported(cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
                 const Tensor x) {
  return mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT &&
         ops != CUDNN_BATCHNORM_OPS_BN && x->type == CUDNN_DATA_BFLOAT16 &&
         x->strides[1] == 1;
}
bool Adds(cudnnBatchNormOps_t ops) {
  return ops == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
}

// The elements of one channel.
struct Channels {
  explicit Channels(const Tensor x)
      : count(x->dims[1]),
        rows(std::int64_t{x->dims[0]} * x->strides[0] / count) {}
  std::int64_t elements() const { return count * rows; }
  template <class Of>
  double Sum(std::int64_t channel, Of&& of) const {
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      sum += of(row * count + channel);
    }
    return sum;
  }
  std::int64_t count;
  std::int64_t rows;
};

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
    const Tensor x, const Tensor, const Tensor, const Tensor,
    const cudnnActivationDescriptor_t, std::size_t* size) {
  *size = kForwardWorkspace;
  return IsSupported(mode, ops, x) ? kOk : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
    const Tensor x, const Tensor, const Tensor, const Tensor, const Tensor,
    const Tensor, const cudnnActivationDescriptor_t, std::size_t* size) {
  *size = kBackwardWorkspace;
  return IsSupported(mode, ops, x) ? kOk : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t ops,
    const cudnnActivationDescriptor_t, const Tensor x, std::size_t* size) {
  *size = Adds(ops) ? static_cast<std::size_t>(Channels(x).elements()) : 0;
  return kOk;
}

cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
    const void*, const void*, const Tensor x, const void* px, const Tensor,
    const void* pz, const Tensor, void* py, const Tensor, const void* scale,
    const void* bias, double momentum, void* running_mean,
    void* running_variance, double epsilon, void* means, void* inverses,
    cudnnActivationDescriptor_t, void*, std::size_t workspace, void* reserve,
    std::size_t) {
  if (!IsSupported(mode, ops, x) || workspace < kForwardWorkspace) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const Channels channels(x);
  const bool adds = Adds(ops);
  return Do(handle, channels.elements(), [=] {
    const auto rows = static_cast<double>(channels.rows);
    for (std::int64_t c = 0; c < channels.count; ++c) {
      const double mean =
          channels.Sum(c, [&](auto i) { return double{Load(px, i)}; }) / rows;
      const double squares = channels.Sum(c, [&](auto i) {
        return (Load(px, i) - mean) * (Load(px, i) - mean);
      });
      const double inverse = 1 / std::sqrt(squares / rows + epsilon);
      Floats(means)[c] = static_cast<float>(mean);
      Floats(inverses)[c] = static_cast<float>(inverse);
      const auto blend = [&](void* running, double value) {
        if (running == nullptr) return;
        float& old = Floats(running)[c];
        old = static_cast<float>((1 - momentum) * old + momentum * value);
      };
      blend(running_mean, mean);
      blend(running_variance, squares / (rows - 1));
      channels.Sum(c, [&](auto i) {
        double value =
            (Load(px, i) - mean) * inverse * Floats(scale)[c] + Floats(bias)[c];
        if (adds) {
          value += Load(pz, i);
          static_cast<bool*>(reserve)[i] = value > 0;
        }
        Store(py, i, value > 0 ? value : 0);
        return 0.0;
      });
    }
  });
}

cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
    const void*, const void*, const void*, const void*, const Tensor x,
    const void* px, const Tensor, const void*, const Tensor, const void* pdy,
    const Tensor, void* pdz, const Tensor, void* pdx, const Tensor,
    const void* scale, const void* bias, void* scales, void* biases, double,
    const void* means, const void* inverses, cudnnActivationDescriptor_t, void*,
    std::size_t workspace, void* reserve, std::size_t) {
  if (!IsSupported(mode, ops, x) || workspace < kBackwardWorkspace) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const Channels channels(x);
  const bool adds = Adds(ops);
  return Do(handle, channels.elements(), [=] {
    const auto rows = static_cast<double>(channels.rows);
    for (std::int64_t c = 0; c < channels.count; ++c) {
      const double inverse = Floats(inverses)[c];
      const auto normal = [&](auto i) {
        return (Load(px, i) - double{Floats(means)[c]}) * inverse;
      };
      const auto gradient = [&](auto i) {
        const bool passes =
            adds ? static_cast<const bool*>(reserve)[i]
                 : normal(i) * Floats(scale)[c] + Floats(bias)[c] > 0;
        return passes ? double{Load(pdy, i)} : 0.0;
      };
      const double sum = channels.Sum(c, gradient);
      const double product =
          channels.Sum(c, [&](auto i) { return gradient(i) * normal(i); });
      channels.Sum(c, [&](auto i) {
        Store(pdx, i,
              Floats(scale)[c] * inverse *
                  (gradient(i) - sum / rows - normal(i) * product / rows));
        if (adds) Store(pdz, i, gradient(i));
        return 0.0;
      });
      Floats(scales)[c] = static_cast<float>(product);
      Floats(biases)[c] = static_cast<float>(sum);
    }
  });
}

}  // extern "C"
#pragma GCC visibility pop
