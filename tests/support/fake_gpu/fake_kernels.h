#ifndef UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_KERNELS_H_
#define UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_KERNELS_H_

// What the kernels of device/cudnn/operators/kernel_text.h do, a thread at a
// time, on the host.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

struct FakeKernel {
  std::vector<std::size_t> sizes;  // of its parameters
  std::function<void(std::uint32_t thread, void** parameters)> run;
};

template <class T>
T FakeParameter(void** parameters, int number) {
  return *static_cast<T*>(parameters[number]);
}

// visit(i) for every element i of the channel that the thread's block adds up.
template <class Visit>
void FakeChannelOfThread(std::uint32_t thread, std::uint32_t count,
                         std::uint32_t pixels, std::uint32_t channels,
                         Visit&& visit) {
  const std::uint32_t channel = thread / 256;
  for (std::uint32_t k = 0; k < count; ++k) {
    visit((k / pixels * channels + channel) * pixels + k % pixels);
  }
}

inline void FakeNormaliseSums(std::uint32_t i, void** p) {
  if (i % 256 != 0) return;
  const auto* const x = FakeParameter<const float*>(p, 0);
  auto* const sums = FakeParameter<double*>(p, 1);
  const auto channels = FakeParameter<std::uint32_t>(p, 4);
  double sum = 0;
  double squares = 0;
  FakeChannelOfThread(i, FakeParameter<std::uint32_t>(p, 2),
                      FakeParameter<std::uint32_t>(p, 3), channels,
                      [&](std::uint32_t at) {
                        sum += double{x[at]};
                        squares += double{x[at]} * double{x[at]};
                      });
  sums[i / 256] = sum;
  sums[channels + i / 256] = squares;
}

inline void FakeNormaliseBackwardSums(std::uint32_t i, void** p) {
  if (i % 256 != 0) return;
  const std::uint32_t c = i / 256;
  const auto* const x = FakeParameter<const float*>(p, 0);
  const auto* const dy = FakeParameter<const float*>(p, 1);
  const auto* const statistics = FakeParameter<const float*>(p, 2);
  auto* const sums = FakeParameter<double*>(p, 3);
  auto* const gradients = FakeParameter<float*>(p, 4);
  const auto channels = FakeParameter<std::uint32_t>(p, 7);
  const auto beta = FakeParameter<float>(p, 8);
  double sum = 0;
  double product = 0;
  FakeChannelOfThread(
      i, FakeParameter<std::uint32_t>(p, 5), FakeParameter<std::uint32_t>(p, 6),
      channels, [&](std::uint32_t at) {
        sum += double{dy[at]};
        product += double{dy[at]} * (double{x[at]} - double{statistics[c]}) *
                   double{statistics[channels + c]};
      });
  sums[c] = sum;
  sums[channels + c] = product;
  const auto store = [beta](double value, float* to) {
    *to = static_cast<float>(value +
                             (beta == 0 ? 0.0 : double{beta} * double{*to}));
  };
  store(product, &gradients[c]);
  store(sum, &gradients[channels + c]);
}

inline void FakeNormaliseStatistics(std::uint32_t c, void** p) {
  const auto channels = FakeParameter<std::uint32_t>(p, 2);
  if (c >= channels) return;
  const auto* const sums = FakeParameter<const double*>(p, 0);
  auto* const statistics = FakeParameter<float*>(p, 1);
  const auto inverse = FakeParameter<double>(p, 3);
  const double mean = sums[c] * inverse;
  const double variance =
      std::max(sums[channels + c] * inverse - mean * mean, 0.0);
  statistics[c] = static_cast<float>(mean);
  statistics[channels + c] =
      static_cast<float>(1 / std::sqrt(variance + FakeParameter<double>(p, 4)));
}

inline void FakeNormalise(std::uint32_t i, void** p) {
  if (i >= FakeParameter<std::uint32_t>(p, 4)) return;
  const auto channels = FakeParameter<std::uint32_t>(p, 6);
  const std::uint32_t c = i / FakeParameter<std::uint32_t>(p, 5) % channels;
  const auto* const statistics = FakeParameter<const float*>(p, 1);
  const auto* const parameters = FakeParameter<const float*>(p, 2);
  FakeParameter<float*>(p, 3)[i] =
      (FakeParameter<const float*>(p, 0)[i] - statistics[c]) *
          statistics[channels + c] * parameters[c] +
      parameters[channels + c];
}

inline void FakeNormaliseBackward(std::uint32_t i, void** p) {
  if (i >= FakeParameter<std::uint32_t>(p, 6)) return;
  const auto channels = FakeParameter<std::uint32_t>(p, 8);
  const std::uint32_t c = i / FakeParameter<std::uint32_t>(p, 7) % channels;
  const auto* const sums = FakeParameter<const double*>(p, 2);
  const auto* const statistics = FakeParameter<const float*>(p, 3);
  const auto inverse_count = FakeParameter<double>(p, 9);
  const auto beta = FakeParameter<float>(p, 10);
  const float inverse = statistics[channels + c];
  const float normal =
      (FakeParameter<const float*>(p, 0)[i] - statistics[c]) * inverse;
  const auto gradients = static_cast<float>(sums[c] * inverse_count);
  const auto products = static_cast<float>(sums[channels + c] * inverse_count);
  float& to = FakeParameter<float*>(p, 5)[i];
  const float gradient =
      (FakeParameter<const float*>(p, 1)[i] - gradients - normal * products) *
      (FakeParameter<const float*>(p, 4)[c] * inverse);
  to = gradient + (beta == 0 ? 0.0F : beta * to);
}

inline void FakeUpdateRunning(std::uint32_t c, void** p) {
  const auto channels = FakeParameter<std::uint32_t>(p, 2);
  if (c >= channels) return;
  const auto* const statistics = FakeParameter<const float*>(p, 0);
  auto* const running = FakeParameter<float*>(p, 1);
  const auto momentum = FakeParameter<float>(p, 3);
  const float inverse = statistics[channels + c];
  const float variance =
      std::max(1 / (inverse * inverse) - FakeParameter<float>(p, 5), 0.0F);
  running[c] += momentum * (statistics[c] - running[c]);
  running[channels + c] += momentum * (variance * FakeParameter<float>(p, 4) -
                                       running[channels + c]);
}

inline void FakeUpdate(std::uint32_t i, void** p) {
  if (i >= FakeParameter<std::uint32_t>(p, 3)) return;
  float& velocity = FakeParameter<float*>(p, 1)[i];
  velocity = FakeParameter<float>(p, 5) * velocity +
             FakeParameter<const float*>(p, 0)[i];
  FakeParameter<float*>(p, 2)[i] -= FakeParameter<float>(p, 4) * velocity;
}

// y = value(x, alpha, beta).
template <class Value>
FakeKernel FakeActivation(Value&& value) {
  return {{8, 8, 4, 4, 4}, [value](std::uint32_t i, void** p) {
            if (i >= FakeParameter<std::uint32_t>(p, 2)) return;
            FakeParameter<float*>(p, 1)[i] =
                value(FakeParameter<const float*>(p, 0)[i],
                      FakeParameter<float>(p, 3), FakeParameter<float>(p, 4));
          }};
}

// dx = slope(saved, alpha) * dy + kept * dx.
template <class Slope>
FakeKernel FakeSlope(Slope&& slope) {
  return {{8, 8, 8, 4, 4, 4}, [slope](std::uint32_t i, void** p) {
            if (i >= FakeParameter<std::uint32_t>(p, 3)) return;
            float& dx = FakeParameter<float*>(p, 2)[i];
            const auto kept = FakeParameter<float>(p, 5);
            const float gradient = slope(FakeParameter<const float*>(p, 0)[i],
                                         FakeParameter<float>(p, 4)) *
                                   FakeParameter<const float*>(p, 1)[i];
            dx = gradient + (kept == 0 ? 0.0F : kept * dx);
          }};
}

inline float FakeSigmoid(float x) { return 1 / (1 + std::exp(-x)); }

inline void FakeCopyRows(std::uint32_t i, void** p) {
  if (i >= FakeParameter<std::uint32_t>(p, 2)) return;
  const auto width = FakeParameter<std::uint32_t>(p, 3);
  const auto rows = FakeParameter<std::uint32_t>(p, 4);
  const auto at = [&](int plane, int row) {
    return i / width / rows * FakeParameter<std::uint32_t>(p, plane) +
           i / width % rows * FakeParameter<std::uint32_t>(p, row) + i % width;
  };
  float& to = FakeParameter<float*>(p, 1)[at(7, 8)];
  const auto beta = FakeParameter<float>(p, 9);
  to = FakeParameter<const float*>(p, 0)[at(5, 6)] +
       (beta == 0 ? 0.0F : beta * to);
}

inline void FakeMultiply(std::uint32_t i, void** p) {
  if (i >= FakeParameter<std::uint32_t>(p, 3)) return;
  float& to = FakeParameter<float*>(p, 2)[i];
  const auto beta = FakeParameter<float>(p, 5);
  to = FakeParameter<const float*>(p, 0)[i] *
           FakeParameter<const float*>(
               p, 1)[i / FakeParameter<std::uint32_t>(p, 4)] +
       (beta == 0 ? 0.0F : beta * to);
}

// Sums over the taps of a pixel of one axis: f(index, weight) for each.
template <class Of>
void FakeTaps(const std::uint32_t* axis, std::uint32_t size,
              std::uint32_t pixel, const Of& f) {
  for (std::uint32_t tap = axis[pixel]; tap < axis[pixel + 1]; ++tap) {
    const std::uint32_t* const of_tap = axis + size + 1 + 2 * tap;
    float weight = 0;
    std::memcpy(&weight, of_tap + 1, sizeof(weight));
    f(of_tap[0], weight);
  }
}

inline void FakeResample(std::uint32_t i, void** p) {
  if (i >= FakeParameter<std::uint32_t>(p, 5)) return;
  const auto axis = [&](int at) {
    return FakeParameter<const std::uint32_t*>(p, at);
  };
  const auto size = [&](int at) { return FakeParameter<std::uint32_t>(p, at); };
  const std::uint32_t row = i / size(8);
  const std::uint32_t slice = row / size(7);
  const float* const x = FakeParameter<const float*>(p, 0) +
                         slice / size(6) * size(9) * size(10) * size(11);
  float sum = 0;
  FakeTaps(axis(2), size(6), slice % size(6), [&](auto d, float u) {
    FakeTaps(axis(3), size(7), row % size(7), [&](auto h, float v) {
      FakeTaps(axis(4), size(8), i % size(8), [&](auto w, float t) {
        sum += u * v * t * x[(d * size(10) + h) * size(11) + w];
      });
    });
  });
  float& to = FakeParameter<float*>(p, 1)[i];
  const auto beta = FakeParameter<float>(p, 12);
  to = sum + (beta == 0 ? 0.0F : beta * to);
}

inline void FakeSumProducts(std::uint32_t i, void** p) {
  if (i % 256 != 0) return;
  const auto count = FakeParameter<std::uint32_t>(p, 3);
  const auto* const a = FakeParameter<const float*>(p, 0);
  const auto* const b = FakeParameter<const float*>(p, 1);
  double sum = 0;
  for (std::uint32_t k = i / 256 * count; k < (i / 256 + 1) * count; ++k) {
    sum += double{a[k]} * double{b[k]};
  }
  float& to = FakeParameter<float*>(p, 2)[i / 256];
  const auto beta = FakeParameter<float>(p, 6);
  to = static_cast<float>(sum) + (beta == 0 ? 0.0F : beta * to);
}

inline const std::map<std::string, FakeKernel>& FakeKernels() {
  static const std::map<std::string, FakeKernel> kKernels = {
      {"ucudnn_subtract_labels",
       {{8, 8, 8, 4, 4, 4, 4, 4},
        [](std::uint32_t i, void** p) {
          if (i >= FakeParameter<std::uint32_t>(p, 3)) return;
          const auto pixels = FakeParameter<std::uint32_t>(p, 4);
          const auto channels = FakeParameter<std::uint32_t>(p, 5);
          // Within the channels even where a test makes it read too late.
          const auto label = static_cast<std::uint32_t>(
                                 FakeParameter<const std::int32_t*>(p, 1)[i]) %
                             channels;
          float& element = FakeParameter<float*>(
              p, 0)[(i / pixels * channels + label) * pixels + i % pixels];
          FakeParameter<float*>(p, 2)[i] = element * FakeParameter<float>(p, 7);
          element -= FakeParameter<float>(p, 6);
        }}},
      {"ucudnn_dropout",
       {{8, 8, 8, 4, 4, 4, 4},
        [](std::uint32_t i, void** p) {
          if (i >= FakeParameter<std::uint32_t>(p, 3)) return;
          std::uint32_t h =
              i * 0x9E3779B1U + FakeParameter<std::uint32_t>(p, 4);
          h = (h ^ (h >> 16)) * 0x85EBCA6BU;
          h = (h ^ (h >> 13)) * 0xC2B2AE35U;
          h ^= h >> 16;
          const bool keeps = h >= FakeParameter<std::uint32_t>(p, 5);
          FakeParameter<std::uint8_t*>(p, 2)[i] = keeps ? 1 : 0;
          FakeParameter<float*>(p, 1)[i] =
              keeps ? FakeParameter<const float*>(p, 0)[i] *
                          FakeParameter<float>(p, 6)
                    : 0.0F;
        }}},
      {"ucudnn_dropout_backward",
       {{8, 8, 8, 4, 4},
        [](std::uint32_t i, void** p) {
          if (i >= FakeParameter<std::uint32_t>(p, 3)) return;
          FakeParameter<float*>(p, 1)[i] =
              FakeParameter<const std::uint8_t*>(p, 2)[i] != 0
                  ? FakeParameter<const float*>(p, 0)[i] *
                        FakeParameter<float>(p, 4)
                  : 0.0F;
        }}},
      {"ucudnn_sigmoid",
       FakeActivation([](float x, float, float) { return FakeSigmoid(x); })},
      {"ucudnn_hard_sigmoid",
       FakeActivation([](float x, float alpha, float beta) {
         return std::clamp(alpha * x + beta, 0.0F, 1.0F);
       })},
      {"ucudnn_swish", FakeActivation([](float x, float, float) {
         return x * FakeSigmoid(x);
       })},
      {"ucudnn_hard_swish", FakeActivation([](float x, float, float) {
         return x * std::clamp(x / 6 + 0.5F, 0.0F, 1.0F);
       })},
      {"ucudnn_sigmoid_backward",
       FakeSlope([](float y, float) { return y * (1 - y); })},
      {"ucudnn_hard_sigmoid_backward", FakeSlope([](float y, float alpha) {
         return y > 0 && y < 1 ? alpha : 0.0F;
       })},
      {"ucudnn_swish_backward", FakeSlope([](float x, float) {
         return FakeSigmoid(x) * (1 + x * (1 - FakeSigmoid(x)));
       })},
      {"ucudnn_hard_swish_backward", FakeSlope([](float x, float) {
         return x < -3 ? 0.0F : x > 3 ? 1.0F : x / 3 + 0.5F;
       })},
      {"ucudnn_copy_rows", {{8, 8, 4, 4, 4, 4, 4, 4, 4, 4}, FakeCopyRows}},
      {"ucudnn_multiply", {{8, 8, 8, 4, 4, 4}, FakeMultiply}},
      {"ucudnn_resample",
       {{8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4}, FakeResample}},
      {"ucudnn_sum_products", {{8, 8, 8, 4, 4, 4, 4}, FakeSumProducts}},
      {"ucudnn_update", {{8, 8, 8, 4, 4, 4}, FakeUpdate}},
      {"ucudnn_normalise_sums", {{8, 8, 4, 4, 4}, FakeNormaliseSums}},
      {"ucudnn_normalise_statistics",
       {{8, 8, 4, 8, 8}, FakeNormaliseStatistics}},
      {"ucudnn_normalise", {{8, 8, 8, 8, 4, 4, 4}, FakeNormalise}},
      {"ucudnn_normalise_backward_sums",
       {{8, 8, 8, 8, 8, 4, 4, 4, 4}, FakeNormaliseBackwardSums}},
      {"ucudnn_normalise_backward",
       {{8, 8, 8, 8, 8, 8, 4, 4, 4, 8, 4}, FakeNormaliseBackward}},
      {"ucudnn_update_running", {{8, 8, 4, 4, 4, 4}, FakeUpdateRunning}}};
  return kKernels;
}

#endif  // UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_KERNELS_H_
