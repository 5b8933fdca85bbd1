#ifndef UCUDNN_TESTS_DEVICE_CUDNN_CUDNN_FAKE_H_
#define UCUDNN_TESTS_DEVICE_CUDNN_CUDNN_FAKE_H_

// A driver and a cuDNN that remember how they were called, so that what
// device/cudnn says to the real ones can be tested without a GPU. They compute
// nothing, except engines whose output the fake driver allocated: those compute
// in float, two dimensions, as the descriptors say or as faulty as they are
// told to. One test at a time: the state is global, as function pointers need
// it.

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
  std::map<const void*, std::vector<char>> memory;  // allocated, by its start
  std::size_t largest_allocation = std::numeric_limits<std::size_t>::max();
  std::vector<std::function<void()>> host_calls;  // enqueued, not made

  // cuDNN's first interface.
  std::map<int, cudnnStatus_t> refusals;  // by algorithm
  // What the heuristics name, by the type of the sums.
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

  // Its graph interface.
  bool engines_accumulate = true;     // take a beta other than 0
  bool engines_scale = true;          // take an alpha other than 1
  std::vector<std::int64_t> engines;  // what the heuristics suggest
  std::int64_t rounding_engine = -1;  // notes the matrix units
  std::int64_t graph_workspace = 0;
  cudnnStatus_t plan_status = CUDNN_STATUS_SUCCESS;  // of making a plan
  int alive = 0;  // descriptors not destroyed
  // Engines that take any graph and compute another.
  std::set<std::int64_t> ignoring_beta;
  std::set<std::int64_t> adding_always;  // as if beta were 1
  std::set<std::int64_t> imprecise;      // off by 1e-4 of the sum
  std::set<std::int64_t> unfinished;     // leave the last element as it was
};
FakeState& Fake();

// What an engine was asked for, from its operation's descriptors and its
// pointers to input, filter and output, done on the host.
void ComputeFake(const FakeDescriptor& operation,
                 const std::vector<const void*>& pointers, std::int64_t engine);

// Forgets everything.
void ResetFake();
DriverApi FakeDriver();
CudnnApi FakeCudnn();

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_TESTS_DEVICE_CUDNN_CUDNN_FAKE_H_
