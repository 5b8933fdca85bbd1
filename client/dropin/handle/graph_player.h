#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_GRAPH_PLAYER_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_GRAPH_PLAYER_H_

// Replays a cuDNN handle's planned convolutions as CUDA graphs. What a kernel
// enqueues on the handle is captured on a stream of our own, and launched on
// the stream that the program has set on the handle, which may be a default
// stream.
//
// Used by one thread at a time, like the handle; its context is current.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "client/executor/graph_cache.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/driver/stream_graph.h"
#include "device/cudnn/handle.h"

namespace ucudnn::cudnn {

// Layers of one shape share a kernel, each with its own operands.
inline constexpr std::size_t kMostGraphsOfAKernel = 64;
using KernelGraphs = GraphCache<StreamGraph>;

// Allows calls on this thread that another thread's graph capture would forbid;
// they are not part of that graph.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& driver) : driver_(driver) {
    (void)driver_.ThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() { (void)driver_.ThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverApi& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

class GraphPlayer {
 public:
  // What it has done, for people.
  struct Use {
    std::uint64_t captured = 0;
    std::uint64_t launched = 0;
    std::uint64_t given_up = 0;  // kernels
    std::string problem;         // why the last one was given up
  };

  // `handle` outlives it.
  GraphPlayer(const DriverApi& driver, CudnnHandle& handle)
      : driver_(driver), handle_(handle) {}
  ~GraphPlayer();
  GraphPlayer(const GraphPlayer&) = delete;
  GraphPlayer& operator=(const GraphPlayer&) = delete;

  // Launches the kernel's graph for `key` on the handle's stream, after
  // capturing what `enqueue` enqueues if it is time (client/executor/
  // graph_cache.h). False if nothing was enqueued and the caller has to: there
  // is no graph, the program is capturing the stream itself, or the graph
  // cannot be made or launched, and then the kernel is given up. Neither
  // allocates nor locks unless it captures. kDataLoss if the handle is unusable
  // afterwards.
  template <class Enqueue>
  Result<bool> Play(KernelGraphs& graphs, const GraphKey& key,
                    GraphBudget& budget, const Enqueue& enqueue) {
    if (graphs.given_up()) return false;
    UCUDNN_ASSIGN_OR_RETURN(const CUstream stream, handle_.stream());
    if (IsCaptured(stream)) return false;
    StreamGraph* graph = graphs.Find(key);
    if (graph == nullptr) {
      if (!graphs.Wants(key)) return NoteGivenUp(graphs, "it never hits");
      if (!budget.has_room()) return GiveUp(graphs, "their memory is used up");
      auto stale = graphs.TakeStale();
      const Bytes known = stale == nullptr ? Bytes() : stale->memory();
      auto made = Capture(stream, std::cref(enqueue), std::move(stale));
      if (!made) {
        if (made.error().code == Code::kDataLoss) {
          return tl::unexpected<Error>(std::move(made).error());
        }
        return GiveUp(graphs, made.error().message);
      }
      ++use_.captured;
      budget.Take(std::max((*made)->memory() - known, Bytes()));
      graph = graphs.Put(key, *std::move(made));
    }
    if (const CUresult launched = graph->Launch(stream);
        launched != CUDA_SUCCESS) {
      return GiveUp(graphs,
                    DescribeError(driver_, launched, "cuGraphLaunch").message);
    }
    ++use_.launched;
    return true;
  }

  // Whether the program is capturing `stream`, as far as the driver reports it.
  bool IsCaptured(CUstream stream) const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver_.StreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
  }
  // The number of the program's capture that `stream` is part of, which no
  // other capture of this process has; nullopt if there is none or the driver
  // does not tell.
  std::optional<std::uint64_t> CaptureOf(CUstream stream) const;
  const Use& use() const { return use_; }

 private:
  // Sets a stream of our own on the handle while it captures, then `theirs`.
  Result<std::unique_ptr<StreamGraph>> Capture(
      CUstream theirs, const std::function<Status()>& enqueue,
      std::unique_ptr<StreamGraph> replaced);
  bool GiveUp(KernelGraphs& graphs, std::string why);
  // False; counts a kernel that its cache has given up.
  bool NoteGivenUp(const KernelGraphs& graphs, std::string why);

  const DriverApi& driver_;
  CudnnHandle& handle_;
  CUstream ours_ = nullptr;
  Use use_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_CLIENT_DROPIN_HANDLE_GRAPH_PLAYER_H_
