#ifndef UCUDNN_DEVICE_CUDNN_LISTER_POOL_H_
#define UCUDNN_DEVICE_CUDNN_LISTER_POOL_H_

// Lists algorithms for many batches on several threads, without preparing
// those of the graph API: building its engines takes the host 50 to 860 ms per
// problem and batch.

#include <memory>
#include <span>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/algorithm_families.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/handle.h"

namespace ucudnn::cudnn {

class ListerPool {
 public:
  // Up to `threads` at once, in `context`, which must outlive them.
  ListerPool(const CudnnApi& api, GpuContext& context, int threads)
      : api_(api), context_(context), threads_(threads) {}

  // The result of ListConvolutions, foreseen, for each batch. `handle`, which
  // works in the context, lists the first batch, and afterwards holds the
  // verdicts on the engines.
  std::vector<Result<std::vector<Candidate>>> List(
      CudnnHandle& handle, Families families, const ConvProblem& problem,
      std::span<const BatchSize> batches);

 private:
  // A handle with its own stream.
  struct Lister {
    std::unique_ptr<GpuContext> context;
    std::unique_ptr<CudnnHandle> handle;
  };
  // Opens listers until there are `count`; fewer if the GPU runs out of memory.
  void Open(std::size_t count);

  const CudnnApi& api_;
  GpuContext& context_;
  const int threads_;
  std::vector<Lister> listers_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_LISTER_POOL_H_
