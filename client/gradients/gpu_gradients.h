#ifndef UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_H_
#define UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_H_

// Sums gradients that lie in a GPU's memory over the ranks. They go through
// pinned memory of the host, two pieces at a time, or, where MPI takes a GPU's
// memory on all ranks, from GPU to GPU in a ring: MPI's own reductions either
// do without a bound or do not take a GPU's memory (Open MPI 4.1 and 5.0), so
// MPI only moves the pieces, and a kernel of ours sums them up.
//
// This header needs none of CUDA's; a build without cuDNN has this class too,
// and can make none.

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "client/ranks/ranks.h"

namespace ucudnn {

namespace cudnn {
struct DriverApi;
}

// The contexts whose memory it sums outlive it.
class GpuGradients {
 public:
  // How pieces get from rank to rank.
  enum class Path {
    kStaged,  // through the host
    kDirect,  // from GPU to GPU
    // As kDirect, through pinned memory of the host that the GPU works on, so
    // that any MPI will do: to test with.
    kMapped,
  };

  // With the driver of this process, and the path that MPI allows. kUnavailable
  // if the process has loaded none, so that nothing is a GPU's; kUnimplemented
  // in a build without cuDNN.
  static Result<std::unique_ptr<GpuGradients>> Create();
  // The driver outlives the result.
  static std::unique_ptr<GpuGradients> With(const cudnn::DriverApi& driver,
                                            Path path);
  ~GpuGradients();

  Path path() const;
  // After a sum: whether the driver has pinned what the ranks share.
  bool pins_window() const;
  // Whether `pointer` is memory of a GPU, as only the driver can tell.
  bool IsGpuMemory(const void* pointer) const;
  // Waits for all that was enqueued in `stream`, a CUstream.
  Status Wait(void* stream, Ranks::Deadline deadline);

  // Collective with SumGradients (client/gradients/gradient_sum.h), whose
  // errors it has: scales `gradients`, memory of a GPU, and sums them. `stream`
  // is the CUstream they are made in, which is waited for first; if it is null,
  // what the default stream would wait for. All else happens in a stream of
  // ours, beside whatever the GPU does in others. When it returns, the sums are
  // there. On one rank's own, before any is summed: kResourceExhausted without
  // pinned memory. kDeadlineExceeded also if the stream does not get so far. T
  // is float or double.
  template <class T>
  Status ScaleAndSum(Ranks& ranks, T* gradients, std::size_t count,
                     double scale, void* stream, Ranks::Deadline deadline);

 private:
  struct State;
  explicit GpuGradients(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_H_
