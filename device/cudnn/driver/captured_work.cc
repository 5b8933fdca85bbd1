#include "device/cudnn/driver/captured_work.h"

#include <utility>

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

}  // namespace

Result<std::unique_ptr<CapturedWork>> CaptureWork(
    GpuContext& context, const std::function<Status()>& work,
    std::unique_ptr<CapturedWork> replaced) {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context.Enter());
  std::unique_ptr<StreamGraph> known;
  if (auto* const ours = dynamic_cast<CapturedGraph*>(replaced.get())) {
    known = ours->Release();
  }
  auto graph = StreamGraph::Capture(context.driver(), context.stream(), work,
                                    std::move(known));
  if (!graph) {
    UCUDNN_RETURN_IF_ERROR(context.CheckStream());
    return tl::unexpected<Error>(std::move(graph).error());
  }
  return std::make_unique<CapturedGraph>(context, *std::move(graph));
}

}  // namespace ucudnn::cudnn
