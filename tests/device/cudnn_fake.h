#ifndef UCUDNN_TESTS_DEVICE_CUDNN_FAKE_H_
#define UCUDNN_TESTS_DEVICE_CUDNN_FAKE_H_

// A driver and a cuDNN that compute nothing but remember how they were called,
// so that what device/cudnn says to the real ones can be tested without a GPU.
// One test at a time: the state is global, as function pointers need it.

#include <map>
#include <string>
#include <vector>

#include "device/cudnn/libraries.h"

namespace ucudnn::cudnn {

// An object of the graph interface as it was described.
struct FakeDescriptor {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::int64_t>> ints;  // and enumerators, pointers
  std::map<int, std::vector<float>> floats;
  bool finalized = false;
};

struct FakeState {
  // The driver.
  CUresult next_result = CUDA_SUCCESS;  // of every call that can fail
  std::vector<CUcontext> current;       // the stack of contexts
  int freed = 0;

  // cuDNN's first interface.
  std::map<int, cudnnStatus_t> refusals;  // by algorithm
  cudnnStatus_t run_status = CUDNN_STATUS_SUCCESS;
  std::size_t workspace = 0;
  struct Run {
    std::string call;
    std::vector<const void*> pointers;  // a, b, out, workspace
    int algorithm = 0;
    std::size_t workspace_size = 0;
    float alpha = 0;
    float beta = 0;
    CUcontext context = nullptr;
  };
  std::vector<Run> runs;

  // Its graph interface.
  bool engines_accumulate = true;     // take a beta other than 0
  bool engines_scale = true;          // take an alpha other than 1
  std::vector<std::int64_t> engines;  // what the heuristics suggest
  std::int64_t rounding_engine = -1;  // notes the matrix units
  std::int64_t graph_workspace = 0;
  int alive = 0;  // descriptors not destroyed
};
FakeState& Fake();

// Forgets everything.
void ResetFake();
DriverApi FakeDriver();
CudnnApi FakeCudnn();

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_TESTS_DEVICE_CUDNN_FAKE_H_
