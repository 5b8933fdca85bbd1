#include "client/conv/prepared_norm.h"

#include <mutex>
#include <utility>

namespace ucudnn {

Result<std::unique_ptr<PreparedNorm>> PreparedNorm::Create(
    std::shared_ptr<ConvDevice> device, const NormProblem& problem) {
  UCUDNN_RETURN_IF_ERROR(Validate(problem));
  const std::lock_guard lock(device->mutex_);
  UCUDNN_ASSIGN_OR_RETURN(auto norm, device->backend_->PrepareNorm(problem));
  return std::unique_ptr<PreparedNorm>(
      new PreparedNorm(std::move(device), std::move(norm)));
}

PreparedNorm::PreparedNorm(std::shared_ptr<ConvDevice> device,
                           std::unique_ptr<FusedNorm> norm)
    : device_(std::move(device)), norm_(std::move(norm)) {}

PreparedNorm::~PreparedNorm() {
  const std::lock_guard lock(device_->mutex_);
  norm_.reset();
}

Status PreparedNorm::Forward(void* stream, const NormForward& operands,
                             const NormWorkspace& workspace) {
  const std::lock_guard lock(device_->mutex_);
  UCUDNN_RETURN_IF_ERROR(device_->backend_->UseStream(stream));
  return norm_->Forward(operands, workspace);
}

Status PreparedNorm::Backward(void* stream, const NormBackward& operands,
                              const NormWorkspace& workspace) {
  const std::lock_guard lock(device_->mutex_);
  UCUDNN_RETURN_IF_ERROR(device_->backend_->UseStream(stream));
  return norm_->Backward(operands, workspace);
}

}  // namespace ucudnn
