#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_ENGINE_CACHE_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_ENGINE_CACHE_H_

// The engines of the problem and batch that a handle listed last. Callers that
// list usually prepare several of them next, and building an engine takes a
// millisecond or more of host time, so Prepare reuses what listing built.

#include <map>
#include <memory>
#include <utility>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/graph/convolution.h"
#include "device/device.h"

namespace ucudnn::cudnn {

class EngineCache {
 public:
  EngineCache(const ConvProblem& problem, BatchSize batch)
      : problem_(problem), batch_(batch) {}

  void Add(const Algorithm& algorithm,
           std::unique_ptr<GraphConvolution> convolution) {
    ready_.insert_or_assign(algorithm, std::move(convolution));
  }
  // The engine as a separate convolution, or null if it is not cached.
  std::unique_ptr<Convolution> Find(const ConvProblem& problem, BatchSize batch,
                                    const Algorithm& algorithm) const {
    if (problem != problem_ || batch != batch_) return nullptr;
    const auto found = ready_.find(algorithm);
    if (found == ready_.end()) return nullptr;
    return std::make_unique<Shared>(found->second);
  }

 private:
  class Shared : public Convolution {
   public:
    explicit Shared(std::shared_ptr<GraphConvolution> convolution)
        : convolution_(std::move(convolution)) {}
    Bytes workspace() const override { return convolution_->workspace(); }
    Status Run(const ConvArgs& args, void* workspace,
               Bytes workspace_size) override {
      return convolution_->Run(args, workspace, workspace_size);
    }

   private:
    std::shared_ptr<GraphConvolution> convolution_;
  };

  const ConvProblem problem_;
  const BatchSize batch_;
  std::map<Algorithm, std::shared_ptr<GraphConvolution>> ready_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_ENGINE_CACHE_H_
