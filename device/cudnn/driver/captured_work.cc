#include "device/cudnn/driver/captured_work.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "device/cudnn/driver/stream_graph.h"

namespace ucudnn::cudnn {
namespace {

// A graph that is launched on the context's own stream.
class CapturedGraph final : public CapturedWork {
 public:
  CapturedGraph(GpuContext& context, std::unique_ptr<StreamGraph> graph)
      : context_(context), graph_(std::move(graph)) {}
  ~CapturedGraph() override {
    if (graph_ == nullptr) return;
    const auto scope = context_.Enter();
    // In a lost context nothing can be destroyed.
    if (!scope) (void)graph_.release();
    graph_.reset();
  }

  Status Enqueue() override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_.Enter());
    return context_.Check(graph_->Launch(context_.stream()), "cuGraphLaunch");
  }
  Bytes memory() const override { return graph_->memory(); }

  std::unique_ptr<StreamGraph> Release() { return std::move(graph_); }

 private:
  GpuContext& context_;
  std::unique_ptr<StreamGraph> graph_;
};

using Nodes = std::vector<CUgraphNode>;

void Append(const Nodes& more, Nodes* nodes) {
  nodes->insert(nodes->end(), more.begin(), more.end());
}

// What the next node on the context's stream, which is captured, depends on.
Result<Nodes> DependenciesOf(GpuContext& context) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode* nodes = nullptr;
  std::size_t count = 0;
  UCUDNN_RETURN_IF_ERROR(context.Check(
      context.driver().StreamGetCaptureInfo(context.stream(), &status, nullptr,
                                            nullptr, &nodes, &count),
      "cuStreamGetCaptureInfo"));
  return Nodes(nodes, nodes + count);
}

Status SetDependencies(GpuContext& context, Nodes nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return context.Check(context.driver().StreamUpdateCaptureDependencies(
                           context.stream(), nodes.data(), nodes.size(),
                           CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                       "cuStreamUpdateCaptureDependencies");
}

Status EnqueueParts(GpuContext& context, std::span<const CapturePart> parts) {
  const bool forks = parts.size() > 1 && CanFork(context.driver());
  std::vector<Nodes> ends;  // by part
  std::vector<bool> followed(parts.size());
  for (const CapturePart& part : parts) {
    if (forks) {
      Nodes before;
      for (const std::size_t after : part.after) {
        Append(ends[after], &before);
        followed[after] = true;
      }
      UCUDNN_RETURN_IF_ERROR(SetDependencies(context, std::move(before)));
    }
    UCUDNN_RETURN_IF_ERROR(part.work());
    if (!forks) continue;
    UCUDNN_ASSIGN_OR_RETURN(ends.emplace_back(), DependenciesOf(context));
  }
  if (!forks) return {};
  Nodes last;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!followed[i]) Append(ends[i], &last);
  }
  return SetDependencies(context, std::move(last));
}

}  // namespace

bool CanFork(const DriverApi& driver) {
  return driver.StreamGetCaptureInfo != nullptr &&
         driver.StreamUpdateCaptureDependencies != nullptr;
}

Result<std::unique_ptr<CapturedWork>> CaptureWork(
    GpuContext& context, std::span<const CapturePart> parts,
    std::unique_ptr<CapturedWork> replaced) {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context.Enter());
  std::unique_ptr<StreamGraph> known;
  if (auto* const ours = dynamic_cast<CapturedGraph*>(replaced.get())) {
    known = ours->Release();
  }
  auto graph = StreamGraph::Capture(
      context.driver(), context.stream(),
      [&] { return EnqueueParts(context, parts); }, std::move(known));
  if (!graph) {
    UCUDNN_RETURN_IF_ERROR(context.CheckStream());
    return tl::unexpected<Error>(std::move(graph).error());
  }
  return std::make_unique<CapturedGraph>(context, *std::move(graph));
}

}  // namespace ucudnn::cudnn
