#ifndef UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_WORK_H_
#define UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_WORK_H_

// How what the fake cuDNN computes beside convolutions runs.

#include <cudnn.h>

#include <cstdint>

#include "tests/support/fake_gpu/fake_cudnn_types.h"
#include "tests/support/fake_gpu/fake_gpu.h"

// Runs `work`, which takes time by its elements, or records it if the handle's
// stream is captured: it holds by value what descriptors and factors say.
template <class Work>
cudnnStatus_t Do(cudnnHandle_t handle, std::int64_t elements, Work work) {
  const auto timed = [=] {
    work();
    FakeGpuSpend(kFakeLaunch + elements * 8 / kFakeMemoryRate);
  };
  if (FakeGpuIsCapturing(handle->stream)) {
    FakeGpuRecord(handle->stream, timed);
  } else {
    timed();
  }
  return CUDNN_STATUS_SUCCESS;
}

#endif  // UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_WORK_H_
