#include "client/dropin/handle/graph_player.h"

#include <utility>

namespace ucudnn::cudnn {

GraphPlayer::~GraphPlayer() {
  if (ours_ != nullptr) (void)driver_.StreamDestroy(ours_);
}

Result<std::unique_ptr<StreamGraph>> GraphPlayer::Capture(
    CUstream theirs, const std::function<Status()>& enqueue,
    std::unique_ptr<StreamGraph> replaced) {
  if (ours_ == nullptr) {
    const RelaxedCapture relaxed(driver_);
    UCUDNN_RETURN_IF_ERROR(
        handle_.Call(driver_.StreamCreate, &ours_, CU_STREAM_NON_BLOCKING));
  }
  const CudnnApi& api = handle_.api();
  UCUDNN_RETURN_IF_ERROR(handle_.Call(api.SetStream, handle_.get(), ours_));
  auto graph =
      StreamGraph::Capture(driver_, ours_, enqueue, std::move(replaced));
  if (const Status back = handle_.Call(api.SetStream, handle_.get(), theirs);
      !back) {
    return Fail(Code::kDataLoss, "the handle has lost its stream: {}",
                back.error().message);
  }
  return graph;
}

std::optional<std::uint64_t> GraphPlayer::CaptureOf(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t number = 0;
  if (driver_.StreamGetCaptureInfo == nullptr ||
      driver_.StreamGetCaptureInfo(stream, &status, &number, nullptr, nullptr,
                                   nullptr) != CUDA_SUCCESS ||
      status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return std::nullopt;
  }
  return number;
}

bool GraphPlayer::GiveUp(KernelGraphs& graphs, std::string why) {
  graphs.GiveUp();
  return NoteGivenUp(graphs, std::move(why));
}

bool GraphPlayer::NoteGivenUp(const KernelGraphs& graphs, std::string why) {
  if (graphs.given_up()) {
    ++use_.given_up;
    use_.problem = std::move(why);
  }
  return false;
}

}  // namespace ucudnn::cudnn
