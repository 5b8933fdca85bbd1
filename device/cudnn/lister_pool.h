#ifndef UCUDNN_DEVICE_CUDNN_LISTER_POOL_H_
#define UCUDNN_DEVICE_CUDNN_LISTER_POOL_H_

// Lists algorithms for many batches on several threads: building the graph
// interface's engines takes the host 50 to 110 ms a problem and batch.

#include <memory>
#include <span>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/convolutions.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/handle.h"

namespace ucudnn::cudnn {

class ListerPool {
 public:
  // Up to `threads` at once, in `context`, which outlives them.
  ListerPool(const CudnnApi& api, GpuContext& context, int threads)
      : api_(api), context_(context), threads_(threads) {}

  // What ListConvolutions tells for each batch. `handle`, which works in the
  // context, lists the first, and knows afterwards which engines are right.
  std::vector<Result<std::vector<Candidate>>> List(
      CudnnHandle& handle, Families families, const ConvProblem& problem,
      std::span<const BatchSize> batches);

 private:
  // A handle with a stream of its own.
  struct Lister {
    std::unique_ptr<GpuContext> context;
    std::unique_ptr<CudnnHandle> handle;
  };
  // Makes what is missing for `count`; fewer where the GPU has no room.
  void Open(std::size_t count);

  const CudnnApi& api_;
  GpuContext& context_;
  const int threads_;
  std::vector<Lister> listers_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_LISTER_POOL_H_
