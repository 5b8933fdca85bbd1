#ifndef UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_GPU_H_
#define UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_GPU_H_

// The tests' interface to the fake libcuda.so.1 and libcudnn.so.9 of this
// folder, and in lib/fake_old to a libcudnn.so.8 and a libcuda.so.1 with only
// the functions of cuDNN 8.9 and of CUDA 11.4's driver (R470): a GPU that
// computes convolutions on the host, in float, two dimensions and NCHW,
// synchronously, and a clock that only cuDNN's functions advance. They replace
// NVIDIA's libraries for any program that loads or links those.
//
// Each operation has two algorithms: 0 without a workspace, and 1, which is
// faster and needs kFakeWorkspace bytes per image, or FAKE_GPU_WORKSPACE if
// that is in the environment. The heuristics name 1 first, or
// FAKE_GPU_SUGGESTION if that is in the environment; the Find functions return
// simulated times. The algorithm FAKE_GPU_INEXACT, if that is in the
// environment, errs by a hundredth.
//
// Streams can be captured into graphs, also in part by the program, and graphs
// instantiated and launched. Waiting for a stream that is being captured, or
// allocating memory on the thread that captures it, invalidates the capture, as
// a GPU's driver does. Each node of an instantiated graph takes
// kFakeNodeMemory bytes of the device's free memory. A graph runs in another
// order than the captured one, as far as its edges allow. Its time is that of
// its longest path, or with FAKE_GPU_SERIAL=1 in the environment the sum of its
// nodes'. Without graphs if FAKE_GPU_GRAPHS=0 is in the environment.
//
// The GPU's compute capability is FAKE_GPU_CAPABILITY, or 60; the driver's CUDA
// version FAKE_CUDA_VERSION, such as 10010, and its number, which the
// management library tells, FAKE_DRIVER.
//
// The GPU's UUID is all 07. With FAKE_GPU_MIG in the environment it is an
// instance of a GPU whose UUID is all 09. A fake libnvidia-ml.so.1, in a folder
// of its own, knows both: the GPU has a power cap, and another process, of id
// 4711, computes in the instance. With FAKE_NVML_MISMATCH it cannot be used.

#include <cstddef>
#include <cstdint>
#include <functional>

inline constexpr std::size_t kFakeWorkspace = 1000;
inline constexpr std::size_t kFakeNodeMemory = 64 << 10;
// Of cudnnScaleTensor: nanoseconds, and bytes per nanosecond.
inline constexpr std::int64_t kFakeLaunch = 2000;
inline constexpr std::int64_t kFakeMemoryRate = 100;

struct FakeGpuRun {
  char operation;  // 'f', 'd' or 'w'
  int batch;
  int algorithm;
  const void* workspace;
  std::size_t workspace_size;
};

struct FakeGpuGraphCounts {
  int captures = 0;  // ended without error
  int instantiated = 0;
  int updated = 0;
  int launches = 0;
  int alive = 0;  // instantiated and not destroyed
};

// Whether the stream, a CUstream, is being captured; then work is not run but
// recorded, and runs whenever the graph is launched.
bool FakeGpuIsCapturing(void* stream);
void FakeGpuRecord(void* stream, std::function<void()> work);

extern "C" {
FakeGpuGraphCounts FakeGpuGraphs();
// How often memory was set in another stream than the time before.
int FakeGpuFillsElsewhere();
// The next `count` instantiations fail for want of memory.
void FakeGpuFailInstantiations(int count);
// The fake driver's time and waits.
void FakeGpuSpend(std::int64_t nanoseconds);
std::int64_t FakeGpuNow();
// Once FakeGpuNow() reaches `now`, everything takes a quarter longer, as on a
// GPU that has lowered its clocks.
void FakeGpuThrottleFrom(std::int64_t now);
int FakeGpuContextWaits();  // how often cuCtxSynchronize was called
// The fake cuDNN's convolutions: how many ran, and one of them by number.
int FakeGpuRuns();
FakeGpuRun FakeGpuRunAt(int number);
}

#endif  // UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_GPU_H_
