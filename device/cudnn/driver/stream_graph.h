#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_GRAPH_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_GRAPH_H_

// What was enqueued on a stream, captured as a CUDA graph and instantiated.
// Launching it costs the host a few microseconds, however many kernels it has.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto graph,
//       StreamGraph::Capture(driver, ours, [&] { return convolution.Run(...);
//       }));
//   graph->Launch(theirs);
//
// The context of the streams is current in every call, and on destruction. Used
// by one thread at a time.

#include <cstddef>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn::cudnn {

// Whether the driver has every function that StreamGraph calls.
bool HasGraphs(const DriverApi& driver);

class StreamGraph {
 public:
  // Records what `enqueue` enqueues on `stream`, without running it. The stream
  // must not be one that other threads synchronise with implicitly: create it
  // with CU_STREAM_NON_BLOCKING. Calls that a capture forbids, such as
  // allocating device memory, make it fail instead of being left out. If
  // `replaced` has the same kernels in the same order, it is updated and
  // returned, which takes no new memory.
  //
  // kUnimplemented without HasGraphs; the errors of `enqueue` and of the
  // driver (GpuContext's DescribeError); kFailedPrecondition if nothing was
  // enqueued. After a failure the stream works as before.
  static Result<std::unique_ptr<StreamGraph>> Capture(
      const DriverApi& driver, CUstream stream,
      const std::function<Status()>& enqueue,
      std::unique_ptr<StreamGraph> replaced = nullptr);
  ~StreamGraph();
  StreamGraph(const StreamGraph&) = delete;
  StreamGraph& operator=(const StreamGraph&) = delete;

  // Enqueues the recorded work on `stream`, which is not being captured. Any
  // stream of the context will do. Does not allocate.
  CUresult Launch(CUstream stream) const {
    return driver_.GraphLaunch(executable_, stream);
  }

  std::size_t nodes() const { return nodes_; }
  // By how much instantiating reduced the device's free memory. What others
  // allocate meanwhile may count too, up to a bound for each node.
  Bytes memory() const { return memory_; }

 private:
  StreamGraph(const DriverApi& driver, std::size_t nodes)
      : driver_(driver), nodes_(nodes) {}
  Status Instantiate(CUgraph graph, CUstream stream);

  const DriverApi& driver_;
  CUgraphExec executable_ = nullptr;
  std::size_t nodes_;
  Bytes memory_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_GRAPH_H_
