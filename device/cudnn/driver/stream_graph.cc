#include "device/cudnn/driver/stream_graph.h"

#include <algorithm>
#include <utility>

#include "device/cudnn/driver/context.h"

namespace ucudnn::cudnn {
namespace {

// A captured graph until it is instantiated.
class Template {
 public:
  explicit Template(const DriverApi& driver) : driver_(driver) {}
  ~Template() {
    if (graph_ != nullptr) (void)driver_.GraphDestroy(graph_);
  }
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;

  CUgraph* address() { return &graph_; }
  CUgraph get() const { return graph_; }

 private:
  const DriverApi& driver_;
  CUgraph graph_ = nullptr;
};

// Sets what this thread may do while it captures.
class CaptureMode {
 public:
  CaptureMode(const DriverApi& driver, CUstreamCaptureMode mode)
      : driver_(driver), mode_(mode) {
    (void)driver_.ThreadExchangeStreamCaptureMode(&mode_);
  }
  ~CaptureMode() { (void)driver_.ThreadExchangeStreamCaptureMode(&mode_); }
  CaptureMode(const CaptureMode&) = delete;
  CaptureMode& operator=(const CaptureMode&) = delete;

 private:
  const DriverApi& driver_;
  CUstreamCaptureMode mode_;
};

Status Record(const DriverApi& driver, CUstream stream,
              const std::function<Status()>& enqueue, Template* into) {
  // Only this thread's calls count, and those that would be left out of the
  // graph fail.
  constexpr auto kOwn = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  const CaptureMode mode(driver, kOwn);
  UCUDNN_RETURN_IF_ERROR(Call(driver, driver.StreamBeginCapture, stream, kOwn));
  Status enqueued = enqueue();
  // Ends the capture whatever happened in it.
  const CUresult ended = driver.StreamEndCapture(stream, into->address());
  UCUDNN_RETURN_IF_ERROR(enqueued);
  if (ended == CUDA_SUCCESS) return {};
  return tl::unexpected<Error>(
      DescribeError(driver, ended, driver.StreamEndCapture.name()));
}

CUresult Update(const DriverApi& driver, CUgraphExec executable,
                CUgraph graph) {
  if (driver.GraphExecUpdate != nullptr) {
    CUgraphExecUpdateResultInfo info = {};
    return driver.GraphExecUpdate(executable, graph, &info);
  }
  CUgraphNode node = nullptr;
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return driver.GraphExecUpdateV1(executable, graph, &node, &result);
}

std::size_t FreeMemory(const DriverApi& driver) {
  std::size_t free = 0;
  std::size_t total = 0;
  return driver.MemGetInfo(&free, &total) == CUDA_SUCCESS ? free : 0;
}

// The most that instantiating a graph is believed to take: the driver hands out
// memory in larger pieces, and old drivers take 64 KiB a kernel.
std::size_t MostMemory(std::size_t nodes) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  constexpr std::size_t kNode = std::size_t{64} << 10;
  return kPiece + nodes * kNode;
}

}  // namespace

bool HasGraphs(const DriverApi& driver) {
  return driver.StreamBeginCapture != nullptr &&
         driver.StreamEndCapture != nullptr &&
         driver.GraphGetNodes != nullptr && driver.GraphDestroy != nullptr &&
         driver.GraphInstantiate != nullptr &&
         (driver.GraphExecUpdate != nullptr ||
          driver.GraphExecUpdateV1 != nullptr) &&
         driver.GraphExecDestroy != nullptr && driver.GraphUpload != nullptr &&
         driver.GraphLaunch != nullptr;
}

Result<std::unique_ptr<StreamGraph>> StreamGraph::Capture(
    const DriverApi& driver, CUstream stream,
    const std::function<Status()>& enqueue,
    std::unique_ptr<StreamGraph> replaced) {
  if (!HasGraphs(driver)) {
    return Fail(Code::kUnimplemented,
                "the driver lacks functions of graphs (CUDA 11.4)");
  }
  Template graph(driver);
  UCUDNN_RETURN_IF_ERROR(Record(driver, stream, enqueue, &graph));
  std::size_t nodes = 0;
  UCUDNN_RETURN_IF_ERROR(
      Call(driver, driver.GraphGetNodes, graph.get(), nullptr, &nodes));
  if (nodes == 0) {
    return Fail(Code::kFailedPrecondition, "nothing was captured");
  }
  if (replaced != nullptr) {
    if (Update(driver, replaced->executable_, graph.get()) == CUDA_SUCCESS) {
      return replaced;
    }
    replaced.reset();
  }
  std::unique_ptr<StreamGraph> made(new StreamGraph(driver, nodes));
  UCUDNN_RETURN_IF_ERROR(made->Instantiate(graph.get(), stream));
  return made;
}

Status StreamGraph::Instantiate(CUgraph graph, CUstream stream) {
  // Instantiating allocates memory, which a capture by another thread would
  // forbid.
  const CaptureMode relaxed(driver_, CU_STREAM_CAPTURE_MODE_RELAXED);
  const std::size_t before = FreeMemory(driver_);
  UCUDNN_RETURN_IF_ERROR(
      Call(driver_, driver_.GraphInstantiate, &executable_, graph, 0));
  // Now rather than at the first launch.
  UCUDNN_RETURN_IF_ERROR(
      Call(driver_, driver_.GraphUpload, executable_, stream));
  const std::size_t after = FreeMemory(driver_);
  if (before > after) {
    memory_ = Bytes(static_cast<std::int64_t>(
        std::min(before - after, MostMemory(nodes_))));
  }
  return {};
}

StreamGraph::~StreamGraph() {
  if (executable_ != nullptr) (void)driver_.GraphExecDestroy(executable_);
}

}  // namespace ucudnn::cudnn
