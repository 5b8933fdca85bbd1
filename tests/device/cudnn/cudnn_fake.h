#ifndef UCUDNN_TESTS_DEVICE_CUDNN_CUDNN_FAKE_H_
#define UCUDNN_TESTS_DEVICE_CUDNN_CUDNN_FAKE_H_

// A fake driver and cuDNN that record their calls, so that device/cudnn can be
// tested without a GPU. They compute nothing, except engines whose output the
// fake driver allocated: those compute in float and two dimensions, as the
// descriptors say or with the faults that a test sets. One test at a time: the
// state is global, since the fakes are plain functions.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/legacy/queries.h"

namespace ucudnn::cudnn {

// An object of the graph API as it was described.
struct FakeDescriptor {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::int64_t>> ints;  // and enumerators, pointers
  std::map<int, std::vector<float>> floats;
  bool finalized = false;
};

struct FakeState {
  // The driver.
  CUresult next_result =
      CUDA_SUCCESS;                // the result of every call that can fail
  std::vector<CUcontext> current;  // the stack of contexts
  int freed = 0;
  std::map<const void*, std::vector<char>> memory;  // allocations by address
  std::size_t largest_allocation = std::numeric_limits<std::size_t>::max();
  std::vector<std::function<void()>> host_calls;  // enqueued, not yet called
  std::size_t captured_nodes = 3;                 // of every captured graph
  CUresult capture_result = CUDA_SUCCESS;
  CUresult instantiate_result = CUDA_SUCCESS;
  CUresult update_result = CUDA_SUCCESS;
  CUresult launch_result = CUDA_SUCCESS;
  std::size_t graph_memory = 0;  // that instantiating takes
  std::size_t free_memory = std::size_t{1} << 30;
  int captures_open = 0;
  int graphs_alive = 0;  // captured or instantiated
  int updates = 0;
  std::vector<CUstream> launches;

  // cuDNN's legacy API.
  std::map<int, cudnnStatus_t> refusals;  // by algorithm
  // The heuristics' suggestions by accumulator type.
  std::map<cudnnDataType_t, std::vector<LegacySuggestion>> suggestions;
  cudnnStatus_t suggestion_status = CUDNN_STATUS_SUCCESS;
  std::map<const void*, cudnnDataType_t> sums;  // by convolution descriptor
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

  // Its graph API.
  bool engines_accumulate = true;     // support a beta other than 0
  bool engines_scale = true;          // support an alpha other than 1
  std::vector<std::int64_t> engines;  // what the heuristics suggest
  std::int64_t rounding_engine = -1;  // notes the matrix units
  std::int64_t graph_workspace = 0;
  cudnnStatus_t plan_status = CUDNN_STATUS_SUCCESS;  // of making a plan
  int alive = 0;  // descriptors not destroyed
  // Engines that accept any graph but compute something else.
  std::set<std::int64_t> ignoring_beta;
  std::set<std::int64_t> adding_always;  // as if beta were 1
  std::set<std::int64_t> imprecise;      // off by 1e-4 of the sum
  std::set<std::int64_t> unfinished;     // leave the last element as it was
};
FakeState& Fake();

// Computes an engine's operation on the host, from its descriptors and its
// pointers to input, filter and output.
void ComputeFake(const FakeDescriptor& operation,
                 const std::vector<const void*>& pointers, std::int64_t engine);

// Forgets everything.
void ResetFake();
DriverApi FakeDriver();
CudnnApi FakeCudnn();

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_TESTS_DEVICE_CUDNN_CUDNN_FAKE_H_
