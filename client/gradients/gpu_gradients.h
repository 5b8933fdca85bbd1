#ifndef UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_H_
#define UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_H_

// Sums gradients that lie in a GPU's memory over the ranks. They go through the
// host, by pinned memory or what the ranks share: MPI's nonblocking reductions,
// which alone can be given up, do not take a GPU's memory (Open MPI 4.1, 5.0).
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
  // With the driver of this process. kUnavailable if it has loaded none, so
  // that nothing is a GPU's; kUnimplemented in a build without cuDNN.
  static Result<std::unique_ptr<GpuGradients>> Create();
  // The driver outlives the result.
  static std::unique_ptr<GpuGradients> With(const cudnn::DriverApi& driver);
  ~GpuGradients();

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
