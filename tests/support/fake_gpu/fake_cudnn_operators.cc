// libcudnn.so.9: operators other than convolutions, in float and packed NCHW.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/fake_gpu/fake_cudnn_types.h"
#include "tests/support/fake_gpu/fake_gpu.h"
#include "tests/support/fake_gpu/fake_work.h"

namespace {

using Tensor = cudnnTensorDescriptor_t;

struct Shape {
  explicit Shape(Tensor t)
      : n(t->dims[0]),
        c(t->dims[1]),
        d(t->rank == 5 ? t->dims[2] : 1),
        h(t->dims[static_cast<std::size_t>(t->rank) - 2]),
        w(t->dims[static_cast<std::size_t>(t->rank) - 1]) {}
  std::int64_t pixels() const { return d * h * w; }
  std::int64_t count() const { return n * c * pixels(); }
  std::int64_t n, c, d, h, w;
};

float Factor(const void* factor) { return *static_cast<const float*>(factor); }
const float* In(const void* data) { return static_cast<const float*>(data); }
float* Out(void* data) { return static_cast<float*>(data); }

// out = alpha * value + beta * out, without reading out if beta is 0.
void Store(float* out, float value, float alpha, float beta) {
  *out = alpha * value + (beta == 0 ? 0.0F : beta * *out);
}

// The input pixels of one axis that a window covers.
std::pair<std::int64_t, std::int64_t> Covered(const cudnnPoolingStruct& pooling,
                                              std::size_t axis,
                                              std::int64_t output,
                                              std::int64_t input) {
  const std::int64_t begin = output * pooling.stride[axis] - pooling.pad[axis];
  return {std::max<std::int64_t>(begin, 0),
          std::min(begin + pooling.window[axis], input)};
}

// visit(output index, input index, divisor) for every pixel of every window;
// averages divide by the divisor.
template <class Visit>
void ForEachWindow(const cudnnPoolingStruct& pooling, const Shape& x,
                   const Shape& y, Visit&& visit) {
  for (std::int64_t to = 0; to < y.count(); ++to) {
    const std::int64_t plane = to / y.pixels();
    const auto [front, back] = Covered(pooling, 0, to / y.w / y.h % y.d, x.d);
    const auto [top, bottom] = Covered(pooling, 1, to / y.w % y.h, x.h);
    const auto [left, right] = Covered(pooling, 2, to % y.w, x.w);
    const auto divisor = static_cast<float>(
        pooling.mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING
            ? (back - front) * (bottom - top) * (right - left)
            : std::int64_t{pooling.window[0]} * pooling.window[1] *
                  pooling.window[2]);
    for (std::int64_t k = front; k < back; ++k) {
      for (std::int64_t i = top; i < bottom; ++i) {
        for (std::int64_t j = left; j < right; ++j) {
          visit(to, ((plane * x.d + k) * x.h + i) * x.w + j, divisor);
        }
      }
    }
  }
}

bool IsMax(const cudnnPoolingStruct& pooling) {
  return pooling.mode == CUDNN_POOLING_MAX ||
         pooling.mode == CUDNN_POOLING_MAX_DETERMINISTIC;
}

// Means over images and pixels of f(channel, element).
template <class Of>
double ChannelSum(const Shape& x, std::int64_t channel, Of&& of) {
  double sum = 0;
  for (std::int64_t n = 0; n < x.n; ++n) {
    for (std::int64_t p = 0; p < x.pixels(); ++p) {
      sum += of((n * x.c + channel) * x.pixels() + p);
    }
  }
  return sum;
}

// What a local response divides element i by a power of.
double LocalSum(const cudnnLRNStruct& lrn, const Shape& shape, const float* x,
                std::int64_t i) {
  const int before = (lrn.size - 1) / 2;
  const std::int64_t c = i / shape.pixels() % shape.c;
  double squares = 0;
  for (std::int64_t k = -before; k < lrn.size - before; ++k) {
    if (c + k < 0 || c + k >= shape.c) continue;
    const double value{x[i + k * shape.pixels()]};
    squares += value * value;
  }
  return lrn.bias + lrn.alpha / lrn.size * squares;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha,
                             const Tensor a, const void* pa, const void* beta,
                             const Tensor c, void* pc) {
  const Shape from(a);
  const Shape to(c);
  const bool same = from.count() == to.count();
  if (!same && (from.n != 1 || from.c != to.c || from.pixels() != 1)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  return Do(handle, to.count(), [=] {
    for (std::int64_t i = 0; i < to.count(); ++i) {
      Store(Out(pc) + i, In(pa)[same ? i : i / to.pixels() % to.c], scale_new,
            scale_old);
    }
  });
}

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* d) {
  *d = new cudnnActivationStruct;
  return kOk;
}
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t d) {
  delete d;
  return kOk;
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t d,
                                           cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t, double) {
  if (mode != CUDNN_ACTIVATION_RELU) return CUDNN_STATUS_NOT_SUPPORTED;
  d->mode = mode;
  return kOk;
}
cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle,
                                     cudnnActivationDescriptor_t,
                                     const void* alpha, const Tensor x,
                                     const void* px, const void* beta,
                                     const Tensor, void* py) {
  const Shape x_shape(x);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  return Do(handle, x_shape.count(), [=] {
    for (std::int64_t i = 0; i < x_shape.count(); ++i) {
      const float value = In(px)[i];
      Store(Out(py) + i, value < 0 ? 0.0F : value, scale_new, scale_old);
    }
  });
}
cudnnStatus_t cudnnActivationBackward(
    cudnnHandle_t handle, cudnnActivationDescriptor_t, const void* alpha,
    const Tensor y, const void*, const Tensor, const void* pdy, const Tensor,
    const void* px, const void* beta, const Tensor, void* pdx) {
  const Shape y_shape(y);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  return Do(handle, y_shape.count(), [=] {
    for (std::int64_t i = 0; i < y_shape.count(); ++i) {
      Store(Out(pdx) + i, In(px)[i] > 0 ? In(pdy)[i] : 0.0F, scale_new,
            scale_old);
    }
  });
}

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* d) {
  *d = new cudnnPoolingStruct;
  return kOk;
}
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t d) {
  delete d;
  return kOk;
}
cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t d,
                                          const cudnnPoolingMode_t mode,
                                          const cudnnNanPropagation_t, int rank,
                                          const int* window, const int* pad,
                                          const int* stride) {
  if (rank != 2 && rank != 3) return CUDNN_STATUS_NOT_SUPPORTED;
  *d = {.mode = mode, .rank = rank};
  std::copy_n(window, rank, d->window.end() - rank);
  std::copy_n(pad, rank, d->pad.end() - rank);
  std::copy_n(stride, rank, d->stride.end() - rank);
  return kOk;
}
cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle,
                                  const cudnnPoolingDescriptor_t pooling,
                                  const void* alpha, const Tensor x,
                                  const void* px, const void* beta,
                                  const Tensor y, void* py) {
  if (x->rank != pooling->rank + 2 || y->rank != x->rank) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const Shape x_shape(x);
  const Shape y_shape(y);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  const cudnnPoolingStruct window = *pooling;
  return Do(handle, x_shape.count(), [=] {
    std::vector<float> values(static_cast<std::size_t>(y_shape.count()),
                              IsMax(window) ? -INFINITY : 0.0F);
    ForEachWindow(window, x_shape, y_shape,
                  [&](std::int64_t to, std::int64_t from, float divisor) {
                    float& value = values[static_cast<std::size_t>(to)];
                    if (IsMax(window)) {
                      value = std::max(value, In(px)[from]);
                    } else {
                      value += In(px)[from] / divisor;
                    }
                  });
    for (std::int64_t i = 0; i < y_shape.count(); ++i) {
      Store(Out(py) + i, values[static_cast<std::size_t>(i)], scale_new,
            scale_old);
    }
  });
}
cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle,
                                   const cudnnPoolingDescriptor_t pooling,
                                   const void* alpha, const Tensor y,
                                   const void* py, const Tensor,
                                   const void* pdy, const Tensor x,
                                   const void* px, const void* beta,
                                   const Tensor, void* pdx) {
  if (px == nullptr || py == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (x->rank != pooling->rank + 2 || y->rank != x->rank) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const Shape x_shape(x);
  const Shape y_shape(y);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  const cudnnPoolingStruct window = *pooling;
  return Do(handle, x_shape.count(), [=] {
    std::vector<float> gradients(static_cast<std::size_t>(x_shape.count()));
    std::vector<bool> given(static_cast<std::size_t>(y_shape.count()));
    ForEachWindow(window, x_shape, y_shape,
                  [&](std::int64_t to, std::int64_t from, float divisor) {
                    float& gradient = gradients[static_cast<std::size_t>(from)];
                    if (!IsMax(window)) {
                      gradient += In(pdy)[to] / divisor;
                    } else if (In(px)[from] == In(py)[to] &&
                               !given[static_cast<std::size_t>(to)]) {
                      gradient += In(pdy)[to];
                      given[static_cast<std::size_t>(to)] = true;
                    }
                  });
    for (std::int64_t i = 0; i < x_shape.count(); ++i) {
      Store(Out(pdx) + i, gradients[static_cast<std::size_t>(i)], scale_new,
            scale_old);
    }
  });
}

cudnnStatus_t cudnnCreateLRNDescriptor(cudnnLRNDescriptor_t* d) {
  *d = new cudnnLRNStruct;
  return kOk;
}
cudnnStatus_t cudnnDestroyLRNDescriptor(cudnnLRNDescriptor_t d) {
  delete d;
  return kOk;
}
cudnnStatus_t cudnnSetLRNDescriptor(cudnnLRNDescriptor_t d, unsigned size,
                                    double alpha, double beta, double bias) {
  if (size < CUDNN_LRN_MIN_N || size > CUDNN_LRN_MAX_N) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  *d = {static_cast<int>(size), alpha, beta, bias};
  return kOk;
}
cudnnStatus_t cudnnLRNCrossChannelForward(cudnnHandle_t handle,
                                          cudnnLRNDescriptor_t window,
                                          cudnnLRNMode_t, const void* alpha,
                                          const Tensor x, const void* px,
                                          const void* beta, const Tensor,
                                          void* py) {
  const Shape shape(x);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  const cudnnLRNStruct lrn = *window;
  return Do(handle, shape.count(), [=] {
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      Store(Out(py) + i,
            static_cast<float>(
                double{In(px)[i]} *
                std::pow(LocalSum(lrn, shape, In(px), i), -lrn.beta)),
            scale_new, scale_old);
    }
  });
}
cudnnStatus_t cudnnLRNCrossChannelBackward(
    cudnnHandle_t handle, cudnnLRNDescriptor_t window, cudnnLRNMode_t,
    const void* alpha, const Tensor, const void* py, const Tensor,
    const void* pdy, const Tensor x, const void* px, const void* beta,
    const Tensor, void* pdx) {
  const Shape shape(x);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  const cudnnLRNStruct lrn = *window;
  return Do(handle, shape.count(), [=] {
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      double through = 0;
      // The channels around which this one is.
      const int before = (lrn.size - 1) / 2;
      const std::int64_t c = i / shape.pixels() % shape.c;
      for (std::int64_t k = before - lrn.size + 1; k <= before; ++k) {
        if (c + k < 0 || c + k >= shape.c) continue;
        const std::int64_t at = i + k * shape.pixels();
        through += double{In(pdy)[at]} * double{In(py)[at]} /
                   LocalSum(lrn, shape, In(px), at);
      }
      const double gradient =
          double{In(pdy)[i]} *
              std::pow(LocalSum(lrn, shape, In(px), i), -lrn.beta) -
          2 * lrn.alpha * lrn.beta / lrn.size * double{In(px)[i]} * through;
      Store(Out(pdx) + i, static_cast<float>(gradient), scale_new, scale_old);
    }
  });
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
    const void* beta, const Tensor x, const void* px, const Tensor, void* py,
    const Tensor, const void* scale, const void* offset, double, void* running,
    void*, double epsilon, void* means, void* inverses) {
  if (mode != CUDNN_BATCHNORM_SPATIAL || running != nullptr) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const Shape shape(x);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  return Do(handle, shape.count(), [=] {
    const auto count = static_cast<double>(shape.n * shape.pixels());
    for (std::int64_t c = 0; c < shape.c; ++c) {
      const double mean =
          ChannelSum(shape, c, [&](auto i) { return double{In(px)[i]}; }) /
          count;
      const double variance =
          ChannelSum(
              shape, c,
              [&](auto i) { return (In(px)[i] - mean) * (In(px)[i] - mean); }) /
          count;
      const double inverse = 1 / std::sqrt(variance + epsilon);
      Out(means)[c] = static_cast<float>(mean);
      Out(inverses)[c] = static_cast<float>(inverse);
      ChannelSum(shape, c, [&](auto i) {
        const double normal = (In(px)[i] - mean) * inverse;
        Store(Out(py) + i,
              static_cast<float>(normal * In(scale)[c] + In(offset)[c]),
              scale_new, scale_old);
        return 0.0;
      });
    }
  });
}
cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
    const void* beta, const Tensor x, const void* px, const Tensor, void* py,
    const Tensor, const void* scale, const void* offset, const void* means,
    const void* variances, double epsilon) {
  if (mode != CUDNN_BATCHNORM_SPATIAL) return CUDNN_STATUS_NOT_SUPPORTED;
  const Shape shape(x);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  return Do(handle, shape.count(), [=] {
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      const std::int64_t c = i / shape.pixels() % shape.c;
      const double normal = (double{In(px)[i]} - double{In(means)[c]}) /
                            std::sqrt(double{In(variances)[c]} + epsilon);
      Store(Out(py) + i,
            static_cast<float>(normal * double{In(scale)[c]} +
                               double{In(offset)[c]}),
            scale_new, scale_old);
    }
  });
}
cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
    const void* beta, const void* parameter_alpha, const void* parameter_beta,
    const Tensor x, const void* px, const Tensor, const void* pdy, const Tensor,
    void* pdx, const Tensor, const void* scale, void* scales, void* offsets,
    double, const void* means, const void* inverses) {
  if (mode != CUDNN_BATCHNORM_SPATIAL || means == nullptr) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const Shape shape(x);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  const float parameter_new = Factor(parameter_alpha);
  const float parameter_old = Factor(parameter_beta);
  return Do(handle, shape.count(), [=] {
    const auto count = static_cast<double>(shape.n * shape.pixels());
    for (std::int64_t c = 0; c < shape.c; ++c) {
      const double inverse = In(inverses)[c];
      const auto normal = [&](auto i) {
        return (In(px)[i] - double{In(means)[c]}) * inverse;
      };
      const double sum =
          ChannelSum(shape, c, [&](auto i) { return double{In(pdy)[i]}; });
      const double product =
          ChannelSum(shape, c, [&](auto i) { return In(pdy)[i] * normal(i); });
      ChannelSum(shape, c, [&](auto i) {
        const double gradient =
            In(scale)[c] * inverse *
            (In(pdy)[i] - sum / count - normal(i) * product / count);
        Store(Out(pdx) + i, static_cast<float>(gradient), scale_new, scale_old);
        return 0.0;
      });
      Store(Out(scales) + c, static_cast<float>(product), parameter_new,
            parameter_old);
      Store(Out(offsets) + c, static_cast<float>(sum), parameter_new,
            parameter_old);
    }
  });
}

cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle,
                                           const void* alpha, const Tensor dy,
                                           const void* pdy, const void* beta,
                                           const Tensor, void* db) {
  const Shape shape(dy);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  return Do(handle, shape.count(), [=] {
    for (std::int64_t c = 0; c < shape.c; ++c) {
      Store(Out(db) + c,
            static_cast<float>(ChannelSum(
                shape, c, [&](auto i) { return double{In(pdy)[i]}; })),
            scale_new, scale_old);
    }
  });
}

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t,
                                  cudnnSoftmaxMode_t mode, const void* alpha,
                                  const Tensor x, const void* px,
                                  const void* beta, const Tensor, void* py) {
  if (mode != CUDNN_SOFTMAX_MODE_CHANNEL) return CUDNN_STATUS_NOT_SUPPORTED;
  const Shape shape(x);
  const float scale_new = Factor(alpha);
  const float scale_old = Factor(beta);
  return Do(handle, shape.count(), [=] {
    for (std::int64_t n = 0; n < shape.n; ++n) {
      for (std::int64_t p = 0; p < shape.pixels(); ++p) {
        const auto at = [&](std::int64_t c) {
          return (n * shape.c + c) * shape.pixels() + p;
        };
        float largest = In(px)[at(0)];
        for (std::int64_t c = 1; c < shape.c; ++c) {
          largest = std::max(largest, In(px)[at(c)]);
        }
        double sum = 0;
        for (std::int64_t c = 0; c < shape.c; ++c) {
          sum += std::exp(double{In(px)[at(c)]} - largest);
        }
        for (std::int64_t c = 0; c < shape.c; ++c) {
          Store(Out(py) + at(c),
                static_cast<float>(std::exp(double{In(px)[at(c)]} - largest) /
                                   sum),
                scale_new, scale_old);
        }
      }
    }
  });
}

}  // extern "C"
#pragma GCC visibility pop
