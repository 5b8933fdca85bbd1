#ifndef UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_GPU_H_
#define UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_GPU_H_

// The tests' interface to the fake libcuda.so.1 and libcudnn.so.9 of this
// folder: a GPU that computes convolutions on the host, in float, two
// dimensions and NCHW, synchronously, and a clock that only convolutions
// advance. They replace NVIDIA's libraries for any program that loads or links
// those.
//
// Each operation has two algorithms: 0 without a workspace, and 1, which is
// faster and needs kFakeWorkspace bytes per image, or FAKE_GPU_WORKSPACE if
// that is in the environment. The heuristics name 1 first, or
// FAKE_GPU_SUGGESTION if that is in the environment; the Find functions return
// simulated times.

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
// The fake driver's time and waits.
void FakeGpuSpend(std::int64_t nanoseconds);
std::int64_t FakeGpuNow();
int FakeGpuContextWaits();  // how often cuCtxSynchronize was called
// The fake cuDNN's convolutions: how many ran, and one of them by number.
int FakeGpuRuns();
FakeGpuRun FakeGpuRunAt(int number);
}

#endif  // UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_GPU_H_
