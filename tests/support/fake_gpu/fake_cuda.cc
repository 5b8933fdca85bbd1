// libcuda.so.1: the functions that device/cudnn loads. With FAKE_CUDA=11040,
// those alone that drivers of CUDA 11.4 have.

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/fake_gpu/fake_gpu.h"
#include "tests/support/fake_gpu/fake_kernels.h"

namespace {

std::atomic<std::int64_t> clock_ns = 0;
std::atomic<std::int64_t> throttled_from_ns =
    std::numeric_limits<std::int64_t>::max();
std::atomic<int> context_waits = 0;

CUcontext Primary() {
  static int context;
  return reinterpret_cast<CUcontext>(&context);
}

// As if the CUDA runtime had been called before.
thread_local std::vector<CUcontext> current = {Primary()};

void* Host(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

bool IsMig() { return std::getenv("FAKE_GPU_MIG") != nullptr; }

constexpr std::size_t kMemory = std::size_t{1} << 30;
std::atomic<std::size_t> graph_memory = 0;
std::atomic<int> begun = 0;  // captures
std::atomic<int> captures = 0;
std::atomic<int> instantiated = 0;
std::atomic<int> updated = 0;
std::atomic<int> launches = 0;
std::atomic<int> alive = 0;
std::atomic<int> instantiations_to_fail = 0;
std::atomic<CUstream> last_filled = nullptr;
std::atomic<int> fills_elsewhere = 0;

// Nodes as the driver hands them out: their places in the capture, from 1.
using Nodes = std::vector<CUgraphNode>;

struct Node {
  std::function<void()> work;
  Nodes after;
};
std::size_t PlaceOf(CUgraphNode node) {
  return reinterpret_cast<std::size_t>(node) - 1;
}

struct Stream {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  std::vector<Node> captured;
  int number = 0;  // of its last capture in this process
  // Whose capture it has joined by waiting, and which one.
  Stream* origin = nullptr;
  int joined = 0;
  Nodes next_follows;  // while it is captured
};
struct Event {
  std::int64_t time = 0;
  Stream* capture = nullptr;  // in which it was recorded
  int number = 0;             // of that capture
  Nodes nodes;                // that come before it there
};
struct Graph {
  std::vector<Node> work;
};

// The capture of this thread, and what the thread may do meanwhile.
thread_local Stream* capturing = nullptr;
thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Null for the default streams, which cannot be captured.
Stream* StreamOf(CUstream stream) {
  const auto value = reinterpret_cast<std::uintptr_t>(stream);
  return value <= 2 ? nullptr : reinterpret_cast<Stream*>(stream);
}
Event* EventOf(CUevent event) { return reinterpret_cast<Event*>(event); }
Graph* GraphOf(CUgraph graph) { return reinterpret_cast<Graph*>(graph); }
Graph* GraphOf(CUgraphExec graph) { return reinterpret_cast<Graph*>(graph); }

// The stream whose capture `stream` takes part in; null if it is not captured.
Stream* CaptureOf(CUstream stream) {
  Stream* const known = StreamOf(stream);
  if (known == nullptr) return nullptr;
  const bool joined =
      known->origin != nullptr && known->origin->number == known->joined;
  Stream* const first = joined ? known->origin : known;
  return first->status == CU_STREAM_CAPTURE_STATUS_NONE ? nullptr : first;
}
bool IsCaptured(CUstream stream) { return CaptureOf(stream) != nullptr; }

// What waiting for a stream does to its capture.
CUresult Wait(CUstream stream) {
  if (!IsCaptured(stream)) return CUDA_SUCCESS;
  CaptureOf(stream)->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

// What calls that a capture forbids do to that of this thread.
CUresult Forbidden() {
  if (capturing == nullptr || mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_SUCCESS;
  }
  capturing->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

std::size_t MemoryOf(const Graph& graph) {
  return graph.work.size() * kFakeNodeMemory;
}

// Whether each node follows the one before it, and nothing else.
bool IsChain(const std::vector<Node>& nodes) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Nodes& after = nodes[i].after;
    if (i == 0 ? !after.empty()
               : after.size() != 1 || PlaceOf(after[0]) != i - 1) {
      return false;
    }
  }
  return true;
}

// Runs all nodes, always the latest that is ready: as far from the order in
// which they were captured as their edges allow. Takes as long as if all ran at
// once that may, unless FAKE_GPU_SERIAL=1 is in the environment. Does not
// allocate for a chain.
void RunNodes(const std::vector<Node>& nodes) {
  if (IsChain(nodes)) {
    for (const Node& node : nodes) node.work();
    return;
  }
  const char* const set = std::getenv("FAKE_GPU_SERIAL");
  const bool serial = set != nullptr && std::string_view(set) == "1";
  const std::int64_t start = clock_ns;
  std::vector<std::size_t> waits(nodes.size());
  std::vector<std::vector<std::size_t>> followers(nodes.size());
  std::vector<std::int64_t> starts(nodes.size(), start);
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    waits[i] = nodes[i].after.size();
    for (const CUgraphNode before : nodes[i].after) {
      followers[PlaceOf(before)].push_back(i);
    }
    if (waits[i] == 0) ready.insert(i);
  }
  std::int64_t all_end = start;
  while (!ready.empty()) {
    const std::size_t node = *ready.rbegin();
    ready.erase(node);
    const std::int64_t before = clock_ns;
    nodes[node].work();
    const std::int64_t end = starts[node] + clock_ns - before;
    all_end = std::max(all_end, end);
    for (const std::size_t follower : followers[node]) {
      starts[follower] = std::max(starts[follower], end);
      if (--waits[follower] == 0) ready.insert(follower);
    }
  }
  if (!serial) clock_ns = all_end;
}

}  // namespace

#pragma GCC visibility push(default)
bool FakeGpuIsCapturing(void* stream) {
  return IsCaptured(static_cast<CUstream>(stream));
}
void FakeGpuRecord(void* stream, std::function<void()> work) {
  Stream* const own = StreamOf(static_cast<CUstream>(stream));
  std::vector<Node>& nodes = CaptureOf(static_cast<CUstream>(stream))->captured;
  nodes.push_back({std::move(work), own->next_follows});
  own->next_follows = {reinterpret_cast<CUgraphNode>(nodes.size())};
}

extern "C" {

FakeGpuGraphCounts FakeGpuGraphs() {
  return {captures, instantiated, updated, launches, alive};
}
int FakeGpuFillsElsewhere() { return fills_elsewhere; }
void FakeGpuFailInstantiations(int count) { instantiations_to_fail = count; }
void FakeGpuSpend(std::int64_t nanoseconds) {
  clock_ns += clock_ns < throttled_from_ns ? nanoseconds : nanoseconds * 5 / 4;
}
void FakeGpuThrottleFrom(std::int64_t now) { throttled_from_ns = now; }
std::int64_t FakeGpuNow() { return clock_ns; }
int FakeGpuContextWaits() { return context_waits; }

CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  const char* const set = std::getenv("FAKE_CUDA_VERSION");
  *version = set == nullptr ? FAKE_CUDA : std::atoi(set);
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "of the fake driver";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, IsMig() ? "Fake GPU MIG 1g.5gb" : "Fake GPU",
               static_cast<std::size_t>(size));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice) {
  std::memset(uuid->bytes, 7, sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}
// The first version tells a MIG instance's GPU.
#undef cuDeviceGetUuid
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice);
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice) {
  std::memset(uuid->bytes, IsMig() ? 9 : 7, sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  *bytes = kMemory;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                              CUdevice) {
  const char* const set = std::getenv("FAKE_GPU_CAPABILITY");
  const int capability = set == nullptr ? 60 : std::atoi(set);
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = 1 << 20;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = capability / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = capability % 10;
      break;
    default:
      *value = 4;
  }
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = Primary();
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent(CUcontext context) {
  current.push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  if (context != nullptr) *context = current.back();
  current.pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current.empty() ? nullptr : current.back();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  if (const CUresult allowed = Forbidden(); allowed != CUDA_SUCCESS) {
    return allowed;
  }
  ++context_waits;
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned int) {
  if (const CUresult allowed = Forbidden(); allowed != CUDA_SUCCESS) {
    return allowed;
  }
  *stream = reinterpret_cast<CUstream>(new Stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  delete StreamOf(stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) { return Wait(stream); }
CUresult cuStreamQuery(CUstream stream) { return Wait(stream); }
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = IsCaptured(stream) ? CaptureOf(stream)->status
                               : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* exchanged) {
  std::swap(mode, *exchanged);
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  const char* const graphs = std::getenv("FAKE_GPU_GRAPHS");
  if (graphs != nullptr && std::string_view(graphs) == "0") {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Stream* const captured = StreamOf(stream);
  if (captured == nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (IsCaptured(stream)) return CUDA_ERROR_ILLEGAL_STATE;
  captured->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  captured->captured.clear();
  captured->next_follows.clear();
  captured->number = ++begun;
  capturing = captured;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream,
                                   CUstreamCaptureStatus* status,
                                   cuuint64_t* number, CUgraph*,
                                   const CUgraphNode** nodes,
                                   std::size_t* count) {
  const Stream* const captured = CaptureOf(stream);
  *status =
      captured == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE : captured->status;
  if (captured == nullptr) return CUDA_SUCCESS;
  if (number != nullptr) *number = static_cast<cuuint64_t>(captured->number);
  const Nodes& next = StreamOf(stream)->next_follows;
  if (nodes != nullptr) *nodes = next.data();
  if (count != nullptr) *count = next.size();
  return CUDA_SUCCESS;
}
#undef cuStreamUpdateCaptureDependencies
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes,
                                           std::size_t count,
                                           unsigned int flags);
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes,
                                           std::size_t count,
                                           unsigned int flags) {
  if (!IsCaptured(stream)) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  StreamOf(stream)->next_follows.assign(nodes, nodes + count);
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  Stream* const captured = StreamOf(stream);
  if (captured == nullptr || !IsCaptured(stream))
    return CUDA_ERROR_ILLEGAL_STATE;
  capturing = nullptr;
  const CUstreamCaptureStatus status = captured->status;
  captured->status = CU_STREAM_CAPTURE_STATUS_NONE;
  *graph = nullptr;
  if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  ++captures;
  *graph = reinterpret_cast<CUgraph>(new Graph{std::move(captured->captured)});
  return CUDA_SUCCESS;
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode*, std::size_t* count) {
  *count = GraphOf(graph)->work.size();
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete GraphOf(graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph,
                                     unsigned long long) {
  if (instantiations_to_fail > 0) {
    --instantiations_to_fail;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++instantiated;
  ++alive;
  graph_memory += MemoryOf(*GraphOf(graph));
  *made = reinterpret_cast<CUgraphExec>(new Graph(*GraphOf(graph)));
  return CUDA_SUCCESS;
}
#if FAKE_CUDA < 12000
#undef cuGraphExecUpdate
CUresult cuGraphExecUpdate(CUgraphExec made, CUgraph graph, CUgraphNode*,
                           CUgraphExecUpdateResult* result);
CUresult cuGraphExecUpdate(CUgraphExec made, CUgraph graph, CUgraphNode*,
                           CUgraphExecUpdateResult* result) {
#else
CUresult cuGraphExecUpdate(CUgraphExec made, CUgraph graph,
                           CUgraphExecUpdateResultInfo* info) {
  CUgraphExecUpdateResult* const result = &info->result;
#endif
  if (GraphOf(made)->work.size() != GraphOf(graph)->work.size()) {
    *result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  ++updated;
  GraphOf(made)->work = GraphOf(graph)->work;
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec graph) {
  --alive;
  graph_memory -= MemoryOf(*GraphOf(graph));
  delete GraphOf(graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphUpload(CUgraphExec, CUstream stream) {
  return IsCaptured(stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                            : CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  if (IsCaptured(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  ++launches;
  RunNodes(GraphOf(graph)->work);
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned int) {
  *event = reinterpret_cast<CUevent>(new Event);
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
  delete EventOf(event);
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  Event recorded;
  recorded.time = clock_ns;
  if (Stream* const capture = CaptureOf(stream); capture != nullptr) {
    recorded.capture = capture;
    recorded.number = capture->number;
    recorded.nodes = StreamOf(stream)->next_follows;
  }
  *EventOf(event) = std::move(recorded);
  return CUDA_SUCCESS;
}
// A stream that waits for captured work takes part in its capture.
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  Stream* const waiting = StreamOf(stream);
  const Event& awaited = *EventOf(event);
  Stream* const capture = awaited.capture;
  if (waiting == nullptr || capture == nullptr ||
      awaited.number != capture->number) {
    return CUDA_SUCCESS;
  }
  if (CaptureOf(stream) != capture) {
    waiting->origin = capture;
    waiting->joined = capture->number;
    waiting->next_follows.clear();
  }
  for (const CUgraphNode node : awaited.nodes) {
    if (std::ranges::count(waiting->next_follows, node) == 0) {
      waiting->next_follows.push_back(node);
    }
  }
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventSynchronize(CUevent) { return CUDA_SUCCESS; }
#if FAKE_CUDA < 12080
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);
#endif
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  *milliseconds =
      static_cast<float>(EventOf(end)->time - EventOf(start)->time) / 1e6F;
  return CUDA_SUCCESS;
}
// A module is its text, which must define the kernels that are looked for;
// what they do is known by their names (fake_kernels.h).
CUresult cuModuleLoadData(CUmodule* module, const void* text) {
  *module = reinterpret_cast<CUmodule>(
      new std::string(static_cast<const char*>(text)));
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
  delete reinterpret_cast<std::string*>(module);
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                             const char* name) {
  const auto* const text = reinterpret_cast<const std::string*>(module);
  const auto known = FakeKernels().find(name);
  if (text->find(std::string(".entry ") + name + "(") == std::string::npos ||
      known == FakeKernels().end()) {
    return CUDA_ERROR_NOT_FOUND;
  }
  *function =
      reinterpret_cast<CUfunction>(const_cast<FakeKernel*>(&known->second));
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned int blocks, unsigned int,
                        unsigned int, unsigned int threads, unsigned int,
                        unsigned int, unsigned int, CUstream stream,
                        void** parameters, void**) {
  const auto& kernel = *reinterpret_cast<const FakeKernel*>(function);
  const std::uint32_t count = blocks * threads;
  if (!IsCaptured(stream)) {
    for (std::uint32_t i = 0; i < count; ++i) kernel.run(i, parameters);
    return CUDA_SUCCESS;
  }
  // Parameters are copied when a kernel is launched.
  std::vector<std::vector<char>> copies;
  for (std::size_t p = 0; p < kernel.sizes.size(); ++p) {
    const auto* const data = static_cast<const char*>(parameters[p]);
    copies.emplace_back(data, data + kernel.sizes[p]);
  }
  FakeGpuRecord(stream, [&kernel, count, copies]() mutable {
    std::vector<void*> pointers;
    for (std::vector<char>& copy : copies) pointers.push_back(copy.data());
    for (std::uint32_t i = 0; i < count; ++i) kernel.run(i, pointers.data());
  });
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = kMemory;
  *free = kMemory - graph_memory;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* address, std::size_t size) {
  if (const CUresult allowed = Forbidden(); allowed != CUDA_SUCCESS) {
    return allowed;
  }
  void* const data = std::aligned_alloc(256, (size + 255) / 256 * 256);
  *address = reinterpret_cast<CUdeviceptr>(data);
  return data == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr address) {
  std::free(Host(address));
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t size,
                           CUstream) {
  std::memcpy(Host(to), from, size);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t size,
                           CUstream) {
  std::memcpy(to, Host(from), size);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, std::size_t size,
                         CUstream stream) {
  if (last_filled.exchange(stream) != stream) ++fills_elsewhere;
  const auto fill = [=] { std::memset(Host(to), byte, size); };
  if (IsCaptured(stream)) {
    FakeGpuRecord(stream, fill);
  } else {
    fill();
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
