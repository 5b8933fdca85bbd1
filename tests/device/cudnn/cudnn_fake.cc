#include "tests/device/cudnn/cudnn_fake.h"

#include <algorithm>
#include <cstring>

namespace ucudnn::cudnn {
namespace {

template <class T>
T Token(std::intptr_t value) {
  return reinterpret_cast<T>(value);
}

CUresult Next() { return Fake().next_result; }

template <class T>
cudnnStatus_t Make(T* descriptor) {
  *descriptor = Token<T>(++Fake().alive);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Query(int algorithm, std::size_t* size) {
  const auto refusal = Fake().refusals.find(algorithm);
  if (refusal != Fake().refusals.end()) return refusal->second;
  *size = Fake().workspace;
  return CUDNN_STATUS_SUCCESS;
}

template <class Perf>
cudnnStatus_t Suggest(cudnnConvolutionDescriptor_t convolution, int requested,
                      int* returned, Perf* results) {
  const auto& suggestions = Fake().suggestions[Fake().sums.at(convolution)];
  *returned = std::min(requested, static_cast<int>(suggestions.size()));
  for (int i = 0; i < *returned; ++i) {
    const LegacySuggestion& suggestion =
        suggestions[static_cast<std::size_t>(i)];
    results[i].algo = static_cast<decltype(Perf::algo)>(suggestion.algorithm);
    results[i].mathType = suggestion.math;
  }
  return Fake().suggestion_status;
}

cudnnStatus_t Ran(const char* call, std::vector<const void*> pointers,
                  int algorithm, std::size_t size, const void* alpha,
                  const void* beta) {
  Fake().runs.push_back(
      {call, std::move(pointers), algorithm, size,
       *static_cast<const float*>(alpha), *static_cast<const float*>(beta),
       Fake().current.empty() ? nullptr : Fake().current.back()});
  return Fake().run_status;
}

FakeDescriptor& Of(cudnnBackendDescriptor_t descriptor) {
  return *static_cast<FakeDescriptor*>(descriptor);
}

std::int64_t Int(const FakeDescriptor& d, int attribute) {
  const auto found = d.ints.find(attribute);
  return found == d.ints.end() ? -1 : found->second.at(0);
}

FakeDescriptor& Referred(const FakeDescriptor& d, int attribute) {
  return *Token<FakeDescriptor*>(Int(d, attribute));
}

const FakeDescriptor& OperationOf(const FakeDescriptor& engine) {
  return Referred(Referred(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH),
                  CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

float Scalar(const FakeDescriptor& operation, int forward, int data,
             int filter) {
  for (const int attribute : {forward, data, filter}) {
    const auto found = operation.floats.find(attribute);
    if (found != operation.floats.end()) return found->second.at(0);
  }
  return -1;
}
float Alpha(const FakeDescriptor& operation) {
  return Scalar(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
}
float Beta(const FakeDescriptor& operation) {
  return Scalar(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
}

std::size_t SizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

cudnnStatus_t SetAttribute(cudnnBackendDescriptor_t descriptor,
                           cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, std::int64_t count,
                           const void* values) {
  FakeDescriptor& d = Of(descriptor);
  if (d.finalized) return CUDNN_STATUS_BAD_PARAM;
  const char* bytes = static_cast<const char*>(values);
  for (std::int64_t i = 0; i < count; ++i, bytes += SizeOf(type)) {
    if (type == CUDNN_TYPE_FLOAT) {
      float value = 0;
      std::memcpy(&value, bytes, sizeof(value));
      d.floats[name].push_back(value);
      continue;
    }
    std::int64_t value = 0;  // little-endian, as the GPUs' hosts are
    std::memcpy(&value, bytes, SizeOf(type));
    d.ints[name].push_back(value);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Finalize(cudnnBackendDescriptor_t descriptor) {
  FakeDescriptor& d = Of(descriptor);
  // Descriptors that are referred to must be finalised.
  for (const auto& [name, values] : d.ints) {
    const bool refers = name == CUDNN_ATTR_OPERATIONGRAPH_OPS ||
                        name == CUDNN_ATTR_ENGINE_OPERATION_GRAPH ||
                        name == CUDNN_ATTR_ENGINECFG_ENGINE ||
                        name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES ||
                        name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;
    for (const std::int64_t value : values) {
      if (refers && !Token<FakeDescriptor*>(value)->finalized) {
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
      }
    }
  }
  if (d.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    const FakeDescriptor& operation = OperationOf(d);
    const auto& engines = Fake().engines;
    if (std::find(engines.begin(), engines.end(),
                  Int(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX)) == engines.end() ||
        (Beta(operation) != 0 && !Fake().engines_accumulate) ||
        (Alpha(operation) != 1 && !Fake().engines_scale)) {
      return CUDNN_STATUS_NOT_SUPPORTED;
    }
  }
  if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
      Fake().plan_status != CUDNN_STATUS_SUCCESS) {
    return Fake().plan_status;
  }
  d.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t GetAttribute(cudnnBackendDescriptor_t const descriptor,
                           cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t, std::int64_t requested,
                           std::int64_t* count, void* values) {
  const FakeDescriptor& d = Of(descriptor);
  auto* const descriptors = static_cast<FakeDescriptor**>(values);
  auto* const number = static_cast<std::int64_t*>(values);
  *count = 1;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      // Each engine without knobs, and with two knobs given out of order; the
      // last one is the fallback.
      const auto& engines = Fake().engines;
      const bool fallback =
          Int(d, CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
      const std::size_t first =
          fallback && !engines.empty() ? engines.size() - 1 : 0;
      *count = static_cast<std::int64_t>(engines.size() - first) * 2;
      for (std::int64_t i = 0; i < requested; ++i) {
        descriptors[i]->ints[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = {
            engines[first + std::size_t(i) / 2]};
        descriptors[i]->ints[CUDNN_ATTR_ENGINECFG_KNOB_CHOICES] = {i % 2 * 2};
        descriptors[i]->finalized = true;
      }
      break;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      descriptors[0]->ints = d.ints;
      descriptors[0]->finalized = true;
      break;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      *count = Int(d, name);
      for (std::int64_t i = 0; i < std::min(*count, requested); ++i) {
        descriptors[i]->ints[CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE] = {7 - 5 * i};
        descriptors[i]->ints[CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE] = {1 + 3 * i};
      }
      break;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      *static_cast<cudnnBackendKnobType_t*>(values) =
          static_cast<cudnnBackendKnobType_t>(Int(d, name));
      break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = Int(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == Fake().rounding_engine;
      *static_cast<cudnnBackendNumericalNote_t*>(values) =
          CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
      break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *number = Fake().graph_workspace;
      break;
    default:
      *number = Int(d, name);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Execute(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                      cudnnBackendDescriptor_t pack) {
  const FakeDescriptor& engine =
      Referred(Referred(Of(plan), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
               CUDNN_ATTR_ENGINECFG_ENGINE);
  const FakeDescriptor& operation = OperationOf(engine);
  // The pointers in the order of the ids 1, 2, 3: input, filter, output.
  const FakeDescriptor& p = Of(pack);
  std::vector<const void*> pointers(4);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t uid =
        p.ints.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).at(i);
    pointers.at(static_cast<std::size_t>(uid - 1)) = Token<const void*>(
        p.ints.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).at(i));
  }
  pointers[3] = Token<const void*>(Int(p, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
  const float alpha = Alpha(operation);
  const float beta = Beta(operation);
  ComputeFake(operation, pointers, Int(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  return Ran("execute", std::move(pointers),
             static_cast<int>(Int(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX)), 0,
             &alpha, &beta);
}

void SetGraphs(DriverApi* api) {
  api->ThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) {
    return CUDA_SUCCESS;
  };
  api->MemGetInfo = [](std::size_t* free, std::size_t* total) {
    *free = *total = Fake().free_memory;
    return CUDA_SUCCESS;
  };
  api->StreamBeginCapture = [](CUstream, CUstreamCaptureMode) {
    ++Fake().captures_open;
    return CUDA_SUCCESS;
  };
  api->StreamEndCapture = [](CUstream, CUgraph* graph) {
    --Fake().captures_open;
    if (Fake().capture_result != CUDA_SUCCESS) return Fake().capture_result;
    *graph = Token<CUgraph>(++Fake().graphs_alive);
    return CUDA_SUCCESS;
  };
  api->GraphGetNodes = [](CUgraph, CUgraphNode*, std::size_t* count) {
    *count = Fake().captured_nodes;
    return CUDA_SUCCESS;
  };
  api->GraphDestroy = [](CUgraph) {
    return --Fake().graphs_alive, CUDA_SUCCESS;
  };
  api->GraphInstantiate = [](CUgraphExec* made, CUgraph, unsigned long long) {
    if (Fake().instantiate_result != CUDA_SUCCESS) {
      return Fake().instantiate_result;
    }
    Fake().free_memory -= Fake().graph_memory;
    *made = Token<CUgraphExec>(++Fake().graphs_alive);
    return CUDA_SUCCESS;
  };
  api->GraphExecUpdate = [](CUgraphExec, CUgraph,
                            CUgraphExecUpdateResultInfo*) {
    ++Fake().updates;
    return Fake().update_result;
  };
  api->GraphExecDestroy = [](CUgraphExec) {
    return --Fake().graphs_alive, CUDA_SUCCESS;
  };
  api->GraphUpload = [](CUgraphExec, CUstream) { return CUDA_SUCCESS; };
  api->GraphLaunch = [](CUgraphExec, CUstream stream) {
    Fake().launches.push_back(stream);
    return Fake().launch_result;
  };
}

void SetDriver(DriverApi* api) {
  api->GetErrorName = [](CUresult result, const char** name) {
    *name = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                                 : nullptr;
    return CUDA_SUCCESS;
  };
  api->GetErrorString = [](CUresult, const char** text) {
    *text = nullptr;
    return CUDA_SUCCESS;
  };
  api->DeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) {
    *value = 132;
    return CUDA_SUCCESS;
  };
  api->DevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    *context = Token<CUcontext>(0x77);
    return Next();
  };
  api->DevicePrimaryCtxRelease = [](CUdevice) {
    ++Fake().freed;
    return CUDA_SUCCESS;
  };
  api->CtxPushCurrent = [](CUcontext context) {
    Fake().current.push_back(context);
    return CUDA_SUCCESS;
  };
  api->CtxPopCurrent = [](CUcontext*) {
    Fake().current.pop_back();
    return CUDA_SUCCESS;
  };
  api->MemAlloc = [](CUdeviceptr* address, std::size_t size) {
    if (Fake().next_result != CUDA_SUCCESS) return Next();
    if (size > Fake().largest_allocation) return CUDA_ERROR_OUT_OF_MEMORY;
    std::vector<char> memory(size);
    void* const start = memory.data();
    Fake().memory.emplace(start, std::move(memory));
    *address = reinterpret_cast<CUdeviceptr>(start);
    return CUDA_SUCCESS;
  };
  api->MemFree = [](CUdeviceptr address) {
    Fake().memory.erase(reinterpret_cast<const void*>(address));
    return CUDA_SUCCESS;
  };
  api->MemcpyHtoDAsync = [](CUdeviceptr to, const void* from, std::size_t size,
                            CUstream) {
    std::memcpy(reinterpret_cast<void*>(to), from, size);
    return CUDA_SUCCESS;
  };
  api->MemcpyDtoHAsync = [](void* to, CUdeviceptr from, std::size_t size,
                            CUstream) {
    std::memcpy(to, reinterpret_cast<const void*>(from), size);
    return CUDA_SUCCESS;
  };
  api->MemsetD8Async = [](CUdeviceptr to, unsigned char byte, std::size_t size,
                          CUstream) {
    std::memset(reinterpret_cast<void*>(to), byte, size);
    return CUDA_SUCCESS;
  };
  SetGraphs(api);
  api->StreamCreate = [](CUstream*, unsigned int) { return Next(); };
  api->StreamDestroy = [](CUstream) { return CUDA_SUCCESS; };
  api->StreamSynchronize = [](CUstream) { return Next(); };
  api->StreamQuery = [](CUstream) { return Next(); };
  api->LaunchHostFunc = [](CUstream, CUhostFn function, void* data) {
    if (Fake().next_result != CUDA_SUCCESS) return Next();
    Fake().host_calls.emplace_back([function, data] { function(data); });
    return CUDA_SUCCESS;
  };
}

}  // namespace

FakeState& Fake() {
  static FakeState state;
  return state;
}

void ResetFake() { Fake() = FakeState(); }

DriverApi FakeDriver() {
  DriverApi api;
  SetDriver(&api);
  return api;
}

CudnnApi FakeCudnn() {
  constexpr auto kSuccess = CUDNN_STATUS_SUCCESS;
  CudnnApi api;
  api.GetErrorString = [](cudnnStatus_t status) {
    return status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "CUDNN_STATUS_OTHER";
  };
  api.GetLastErrorString = [](char* text, std::size_t size) {
    std::strncpy(text, "because\n", size);
  };
  api.Create = [](cudnnHandle_t* handle) { return Make(handle); };
  api.Destroy = [](cudnnHandle_t) { return --Fake().alive, kSuccess; };
  api.SetStream = [](cudnnHandle_t, cudaStream_t) { return kSuccess; };
  api.GetStream = [](cudnnHandle_t, cudaStream_t*) { return kSuccess; };
  api.CreateTensorDescriptor = [](cudnnTensorDescriptor_t* d) {
    return Make(d);
  };
  api.DestroyTensorDescriptor = [](cudnnTensorDescriptor_t) {
    return --Fake().alive, kSuccess;
  };
  api.SetTensorNdDescriptor = [](cudnnTensorDescriptor_t, cudnnDataType_t, int,
                                 const int*, const int*) { return kSuccess; };
  api.CreateFilterDescriptor = [](cudnnFilterDescriptor_t* d) {
    return Make(d);
  };
  api.DestroyFilterDescriptor = [](cudnnFilterDescriptor_t) {
    return --Fake().alive, kSuccess;
  };
  api.SetFilterNdDescriptor = [](cudnnFilterDescriptor_t, cudnnDataType_t,
                                 cudnnTensorFormat_t, int,
                                 const int*) { return kSuccess; };
  api.CreateConvolutionDescriptor = [](cudnnConvolutionDescriptor_t* d) {
    return Make(d);
  };
  api.DestroyConvolutionDescriptor = [](cudnnConvolutionDescriptor_t) {
    return --Fake().alive, kSuccess;
  };
  api.SetConvolutionNdDescriptor =
      [](cudnnConvolutionDescriptor_t d, int, const int*, const int*,
         const int*, cudnnConvolutionMode_t, cudnnDataType_t sum) {
        Fake().sums[d] = sum;
        return kSuccess;
      };
  api.SetConvolutionGroupCount = [](cudnnConvolutionDescriptor_t, int) {
    return kSuccess;
  };
  api.SetConvolutionMathType = [](cudnnConvolutionDescriptor_t,
                                  cudnnMathType_t) { return kSuccess; };
  api.GetForwardWorkspaceSize =
      [](cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
         cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
         cudnnConvolutionFwdAlgo_t algorithm,
         std::size_t* size) { return Query(algorithm, size); };
  api.GetBackwardDataWorkspaceSize =
      [](cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
         cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
         cudnnConvolutionBwdDataAlgo_t algorithm,
         std::size_t* size) { return Query(algorithm, size); };
  api.GetBackwardFilterWorkspaceSize =
      [](cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
         cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t,
         cudnnConvolutionBwdFilterAlgo_t algorithm,
         std::size_t* size) { return Query(algorithm, size); };
  api.GetForwardAlgorithm =
      [](cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
         cudnnConvolutionDescriptor_t d, cudnnTensorDescriptor_t, int requested,
         int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
        return Suggest(d, requested, returned, results);
      };
  api.GetBackwardDataAlgorithm =
      [](cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
         cudnnConvolutionDescriptor_t d, cudnnTensorDescriptor_t, int requested,
         int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
        return Suggest(d, requested, returned, results);
      };
  api.GetBackwardFilterAlgorithm =
      [](cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
         cudnnConvolutionDescriptor_t d, cudnnFilterDescriptor_t, int requested,
         int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
        return Suggest(d, requested, returned, results);
      };
  api.ConvolutionForward = [](cudnnHandle_t, const void* alpha,
                              cudnnTensorDescriptor_t, const void* x,
                              cudnnFilterDescriptor_t, const void* w,
                              cudnnConvolutionDescriptor_t,
                              cudnnConvolutionFwdAlgo_t algorithm,
                              void* workspace, std::size_t size,
                              const void* beta, cudnnTensorDescriptor_t,
                              void* y) {
    return Ran("forward", {x, w, y, workspace}, algorithm, size, alpha, beta);
  };
  api.ConvolutionBackwardData =
      [](cudnnHandle_t, const void* alpha, cudnnFilterDescriptor_t,
         const void* w, cudnnTensorDescriptor_t, const void* dy,
         cudnnConvolutionDescriptor_t, cudnnConvolutionBwdDataAlgo_t algorithm,
         void* workspace, std::size_t size, const void* beta,
         cudnnTensorDescriptor_t, void* dx) {
        return Ran("backward_data", {dy, w, dx, workspace}, algorithm, size,
                   alpha, beta);
      };
  api.ConvolutionBackwardFilter =
      [](cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t,
         const void* x, cudnnTensorDescriptor_t, const void* dy,
         cudnnConvolutionDescriptor_t,
         cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
         std::size_t size, const void* beta, cudnnFilterDescriptor_t,
         void* dw) {
        return Ran("backward_filter", {x, dy, dw, workspace}, algorithm, size,
                   alpha, beta);
      };
  api.ScaleTensor = [](cudnnHandle_t, cudnnTensorDescriptor_t, void* y,
                       const void* alpha) {
    const float zero = 0;
    return Ran("scale", {y}, 0, 0, alpha, &zero);
  };
  api.AddTensor = [](cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t,
                     const void* a, const void* beta, cudnnTensorDescriptor_t,
                     void* c) {
    return Ran("add", {a, c}, 0, 0, alpha, beta);
  };
  api.BackendCreateDescriptor = [](cudnnBackendDescriptorType_t type,
                                   cudnnBackendDescriptor_t* descriptor) {
    *descriptor = new FakeDescriptor{type, {}, {}, false};
    ++Fake().alive;
    return kSuccess;
  };
  api.BackendDestroyDescriptor = [](cudnnBackendDescriptor_t descriptor) {
    delete static_cast<FakeDescriptor*>(descriptor);
    --Fake().alive;
    return kSuccess;
  };
  api.BackendSetAttribute = SetAttribute;
  api.BackendGetAttribute = GetAttribute;
  api.BackendFinalize = Finalize;
  api.BackendExecute = Execute;
  return api;
}

}  // namespace ucudnn::cudnn
