#ifndef UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_KERNELS_H_
#define UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_KERNELS_H_

// What the kernels of device/cudnn/operators/kernels.cc do, a thread at a time,
// on the host.

#include <cstddef>
#include <cstdint>
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

inline const std::map<std::string, FakeKernel>& FakeKernels() {
  static const std::map<std::string, FakeKernel> kKernels = {
      {"ucudnn_subtract_labels",
       {{8, 8, 8, 4, 4, 4, 4, 4},
        [](std::uint32_t i, void** p) {
          if (i >= FakeParameter<std::uint32_t>(p, 3)) return;
          const auto pixels = FakeParameter<std::uint32_t>(p, 4);
          const auto channels = FakeParameter<std::uint32_t>(p, 5);
          const auto label = static_cast<std::uint32_t>(
              FakeParameter<const std::int32_t*>(p, 1)[i]);
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
       {{8, 8, 8, 4, 4}, [](std::uint32_t i, void** p) {
          if (i >= FakeParameter<std::uint32_t>(p, 3)) return;
          FakeParameter<float*>(p, 1)[i] =
              FakeParameter<const std::uint8_t*>(p, 2)[i] != 0
                  ? FakeParameter<const float*>(p, 0)[i] *
                        FakeParameter<float>(p, 4)
                  : 0.0F;
        }}}};
  return kKernels;
}

#endif  // UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_KERNELS_H_
