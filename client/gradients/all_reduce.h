#ifndef UCUDNN_CLIENT_GRADIENTS_ALL_REDUCE_H_
#define UCUDNN_CLIENT_GRADIENTS_ALL_REDUCE_H_

// Sums gradients over ranks, wherever each rank has them: in host or GPU
// memory, which the driver distinguishes. Keeps buffers and streams from one
// sum to the next.

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "client/gradients/gradient_sum.h"
#include "client/ranks/ranks.h"

namespace ucudnn {

class GpuGradients;

class AllReducer {
 public:
  // `ranks` must outlive it.
  explicit AllReducer(Ranks& ranks);
  ~AllReducer();
  AllReducer(const AllReducer&) = delete;
  AllReducer& operator=(const AllReducer&) = delete;

  // Collective: multiplies `gradients` by `weight` and sums them over the
  // ranks, in place, like SumGradients (client/gradients/gradient_sum.h), with
  // its errors. `stream`, a CUstream, is the stream that produces them. If
  // null, the gradients are ready or are produced in streams that the default
  // stream waits for. T is float or double.
  template <class T>
  Status Sum(std::span<T> gradients, double weight, void* stream,
             Ranks::Deadline deadline);

  // As GpuGradients has them: sums that are enqueued on GPUs, without the host.
  Result<bool> PrepareToEnqueue(const void* memory, Ranks::Deadline deadline);
  template <class T>
  Status Enqueue(std::span<const std::span<T>> values, void* stream,
                 Ranks::Deadline deadline);
  Status Check();
  void Abort();
  bool IsGpuMemory(const void* pointer);

  // Frees buffers, streams and the GPUs' communicator until the next sum.
  void Free();

  // How the last sum was made, and why not by NCCL: "NCCL 2.28.9", "MPI; NCCL
  // is not used: ranks 0 and 1 have the same GPU". Empty before the first sum.
  const std::string& method() const { return method_; }

 private:
  // Null if the process has not loaded the driver.
  GpuGradients* Gpu();
  std::string Describe(SumMethod method, bool on_gpu) const;

  Ranks& ranks_;
  std::unique_ptr<GpuGradients> gpu_;
  std::string method_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_ALL_REDUCE_H_
