#ifndef UCUDNN_CLIENT_CONV_PREPARED_NORM_H_
#define UCUDNN_CLIENT_CONV_PREPARED_NORM_H_

// Fused normalizations (device/operators/fused_norm.h) of a program that brings
// the stream, the operands and the workspace. Thread safe: calls on one device
// exclude each other, and its convolutions.

#include <memory>

#include "base/result.h"
#include "client/conv/planned_convolution.h"
#include "device/operators/fused_norm.h"

namespace ucudnn {

class PreparedNorm {
 public:
  // Takes microseconds. Errors of ConvBackend::PrepareNorm.
  static Result<std::unique_ptr<PreparedNorm>> Create(
      std::shared_ptr<ConvDevice> device, const NormProblem& problem);
  ~PreparedNorm();
  PreparedNorm(const PreparedNorm&) = delete;
  PreparedNorm& operator=(const PreparedNorm&) = delete;

  // Its sizes alone; what enqueues needs the device.
  const FusedNorm& norm() const { return *norm_; }

  // Enqueue on `stream`, as FusedNorm does. Errors of FusedNorm, and
  // kInvalidArgument if the stream is of no use.
  Status Forward(void* stream, const NormForward& operands,
                 const NormWorkspace& workspace);
  Status Backward(void* stream, const NormBackward& operands,
                  const NormWorkspace& workspace);

 private:
  PreparedNorm(std::shared_ptr<ConvDevice> device,
               std::unique_ptr<FusedNorm> norm);

  const std::shared_ptr<ConvDevice> device_;
  std::unique_ptr<FusedNorm> norm_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONV_PREPARED_NORM_H_
