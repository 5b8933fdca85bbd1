#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_ENGINE_CHECK_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_ENGINE_CHECK_H_

// Checks that an engine of the graph API computes what its graph says. Some do
// not, yet accept the graph: cuDNN 9.19 has engines that ignore beta, and
// others that add to an output which they should replace. So an engine is
// offered only after it has run:
//
//   alpha 1, beta 0          into an output full of NaN
//   alpha 1, beta 1          onto an output large enough for its loss to show
//   alpha 0.5, beta -0.75    likewise
//
// with a workspace full of NaN, on few images of the problem itself, and some
// elements of each result were compared with sums in double. The tolerance is
// what the precision explains, in proportion to the sum of the absolute
// products. Winograd on FP32 filters beyond 3x3 exceeds it; the legacy API
// offers that under a name that says so.
//
// The number of images is odd: some engines are right only where it, or the
// images' elements together, need no rounding up, since they read parts of
// their workspace that they did not write. The check cannot see what an engine
// does differently for a larger batch.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/graph/name.h"
#include "device/cudnn/graph/problem.h"
#include "device/cudnn/handle.h"
#include "device/reference_element.h"

namespace ucudnn::cudnn {

struct EngineVerdict {
  // Why the engine must not be used; empty if its results are right.
  std::string fault;
  // Whether results with scalars other than 1 and 0 are also right, within the
  // workspace that 1 and 0 need.
  bool scales = false;
};

// The verdicts so far, kept with a handle.
class EngineValidation {
 public:
  using Key = std::tuple<ConvProblem, Precision, EngineName>;
  const EngineVerdict* Find(const Key& key) const {
    const auto found = verdicts_.find(key);
    return found == verdicts_.end() ? nullptr : &found->second;
  }
  // Adds the verdicts of others.
  void Merge(const EngineValidation& others) {
    verdicts_.insert(others.verdicts_.begin(), others.verdicts_.end());
  }
  const EngineVerdict& Add(const Key& key, EngineVerdict verdict) {
    return verdicts_.insert_or_assign(key, std::move(verdict)).first->second;
  }

 private:
  std::map<Key, EngineVerdict> verdicts_;
};

// How many images of a problem the check takes, whatever the batch: 3, or 1 if
// an image has very many elements.
BatchSize CheckBatch(const ConvProblem& problem);

// Checks engines of one problem on the device, where it keeps at most some 20
// MiB of operands.
class EngineBench {
 public:
  EngineBench(CudnnHandle& handle, const ConvProblem& problem);
  ~EngineBench();
  EngineBench(const EngineBench&) = delete;
  EngineBench& operator=(const EngineBench&) = delete;

  // The known verdict on the engine as it computes in `asked`, or a new one,
  // which takes some milliseconds of host time and waits for the device. The
  // calling thread is inside handle.Enter(). An error means that the check
  // could not run: whatever the driver reports, such as kResourceExhausted.
  Result<EngineVerdict> Judge(Precision asked, const EngineName& engine);

 private:
  struct Sample {
    std::int64_t index = 0;
    ReferenceElement expected;
  };

  Status Prepare();
  // Frees `*memory` and allocates it anew.
  Status Allocate(Bytes size, CUdeviceptr* memory);
  Result<EngineVerdict> Find(Precision asked, const EngineName& engine);
  // The largest error of a sample, in units of the tolerance; an error if the
  // plan cannot run.
  Result<double> ErrorOf(const EngineConvolution& plan, Scaling scaling,
                         double tolerance);

  CudnnHandle& handle_;
  const ConvProblem problem_;
  const BatchSize batch_;
  const OperandElements elements_;
  std::shared_ptr<GraphProblem> graphs_;  // null until prepared
  const DriverApi* driver_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr a_ = 0;
  CUdeviceptr b_ = 0;
  CUdeviceptr out_ = 0;
  CUdeviceptr workspace_ = 0;
  Bytes workspace_size_;
  std::vector<Sample> samples_;
  double scale_ = 0;  // the largest magnitude of a sample
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_ENGINE_CHECK_H_
