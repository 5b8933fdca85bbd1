#ifndef UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_H_
#define UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_H_

// Sums gradients in GPU memory over the ranks: by NCCL if each rank has a GPU
// of its own, else through the host, in pinned memory or memory that the ranks
// share, since only MPI's nonblocking reductions can be abandoned, and they do
// not accept GPU memory (Open MPI 4.1, 5.0).
//
// This header includes nothing of CUDA; in a build without cuDNN, Create fails.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "client/gradients/gradient_sum.h"
#include "client/ranks/ranks.h"

namespace ucudnn {

struct NcclApi;
namespace cudnn {
struct DriverApi;
}

// The contexts of the memory that it sums must outlive it.
class GpuGradients {
 public:
  // Uses the driver that this process has loaded. kUnavailable if it has loaded
  // none, so that no memory can be a GPU's; kUnimplemented in a build without
  // cuDNN.
  static Result<std::unique_ptr<GpuGradients>> Create();
  // With this driver and NCCL, or without NCCL if it is null. Both must outlive
  // the result.
  static std::unique_ptr<GpuGradients> With(const cudnn::DriverApi& driver,
                                            const NcclApi* nccl);
  ~GpuGradients();

  // NCCL's version; empty without it.
  std::string nccl_version() const;
  // Why this rank does not sum by NCCL, as far as it knows; may be empty.
  const std::string& why_not_nccl() const;
  // Whether `pointer` is GPU memory, according to the driver.
  bool IsGpuMemory(const void* pointer) const;
  // Waits for everything enqueued in `stream`, a CUstream.
  Status Wait(void* stream, Ranks::Deadline deadline);

  // Collective with SumGradients (client/gradients/gradient_sum.h), with its
  // errors: multiplies `gradients`, in GPU memory, by `scale` and sums them.
  // First waits for `stream`, the CUstream that produces them, or, if null, for
  // what the default stream would wait for. Everything else runs in a separate
  // stream, concurrently with the GPU's other streams. The sums are complete on
  // return. Before any value is summed, this rank can fail with
  // kResourceExhausted (no pinned memory). kDeadlineExceeded also if the stream
  // does not finish in time. T is float or double.
  template <class T>
  Result<SumMethod> ScaleAndSum(Ranks& ranks, T* gradients, std::size_t count,
                                double scale, void* stream,
                                Ranks::Deadline deadline);

  // Collective: whether each rank has NCCL and a GPU of its own, the one with
  // `memory`, so that sums can be enqueued. Null: this rank has none. Errors:
  // the ranks could not agree.
  Result<bool> PrepareToEnqueue(Ranks& ranks, const void* memory,
                                Ranks::Deadline deadline);
  // After it returned true, on all ranks in the same order: enqueues in
  // `stream`, a CUstream of the GPU, that `values`, in the GPU's memory, become
  // the sums over the ranks, at once. kUnavailable if NCCL fails,
  // kDeadlineExceeded.
  template <class T>
  Status Enqueue(std::span<const std::span<T>> values, void* stream,
                 Ranks::Deadline deadline);
  // The error if a sum that was enqueued cannot be made.
  Status Check() const;
  // Ends the sums that are under way, whatever they wait for; none can be
  // enqueued afterwards.
  void Abort();

 private:
  struct State;
  explicit GpuGradients(std::unique_ptr<State> state);
  Status CheckGroup() const;
  std::unique_ptr<State> state_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_H_
