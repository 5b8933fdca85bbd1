#ifndef UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_GPU_H_
#define UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_GPU_H_

// What tests ask the fake libcuda.so.1 and libcudnn.so.9 of this folder: a GPU
// that computes convolutions on the host, in float, two dimensions and NCHW,
// at once, and a clock that only convolutions move. They stand in for NVIDIA's
// under whatever loads or links those.
//
// Each operation has two algorithms: 0 without a workspace, and 1, which is
// faster and needs kFakeWorkspace bytes an image, or FAKE_GPU_WORKSPACE if that
// is in the environment. cuDNN's heuristics name 1 first, or, if it is in the
// environment, FAKE_GPU_SUGGESTION; its Find functions measure, so to speak.

#include <cstddef>
#include <cstdint>

inline constexpr std::size_t kFakeWorkspace = 1000;

struct FakeGpuRun {
  char operation;  // 'f', 'd' or 'w'
  int batch;
  int algorithm;
  const void* workspace;
  std::size_t workspace_size;
};

extern "C" {
// Of the fake driver.
void FakeGpuSpend(std::int64_t nanoseconds);
std::int64_t FakeGpuNow();
int FakeGpuContextWaits();  // how often cuCtxSynchronize was called
// Of the fake cuDNN: how many convolutions were run, and the one of a number.
int FakeGpuRuns();
FakeGpuRun FakeGpuRunAt(int number);
}

#endif  // UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_GPU_H_
