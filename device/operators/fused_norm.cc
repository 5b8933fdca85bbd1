#include "device/operators/fused_norm.h"

#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>

namespace ucudnn {
namespace {

using Named = std::pair<std::string_view, const void*>;

Status CheckPresent(std::initializer_list<Named> operands) {
  for (const auto& [name, operand] : operands) {
    if (operand == nullptr) {
      return Fail(Code::kInvalidArgument,
                  "the normalization's operand {} is null", name);
    }
  }
  return {};
}

Status CheckAddend(const NormProblem& problem, const Named& operand) {
  if (problem.adds == (operand.second != nullptr)) return {};
  return Fail(Code::kInvalidArgument,
              "the normalization's operand {} is {}null; it was prepared {} "
              "a sum",
              operand.first, problem.adds ? "" : "not ",
              problem.adds ? "with" : "without");
}

Status CheckMemory(const NormWorkspace& workspace, Bytes needed,
                   const void* reserve, Bytes needed_reserve) {
  if (workspace.size < needed ||
      (needed > Bytes() && workspace.memory == nullptr)) {
    return Fail(Code::kInvalidArgument,
                "a workspace of {} bytes at {} was given; {} bytes are needed",
                workspace.size.count(), workspace.memory, needed.count());
  }
  if (needed_reserve > Bytes() && reserve == nullptr) {
    return Fail(Code::kInvalidArgument,
                "the reserve is null; {} bytes are needed",
                needed_reserve.count());
  }
  return {};
}

}  // namespace

Status Validate(const NormProblem& problem) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const auto& [name, size] : {std::pair{"images", problem.images},
                                   {"channels", problem.channels},
                                   {"height", problem.height},
                                   {"width", problem.width}}) {
    if (size < 1 || size > kMost) {
      return Fail(Code::kInvalidArgument,
                  "{} of a normalization: {}; 1 to {} is accepted", name, size,
                  kMost);
    }
  }
  return {};
}

Status CheckRun(const NormProblem& problem, const FusedNorm& norm,
                const NormForward& operands, const NormWorkspace& workspace) {
  UCUDNN_RETURN_IF_ERROR(
      CheckPresent({{"x", operands.x},
                    {"scale", operands.scale},
                    {"bias", operands.bias},
                    {"y", operands.y},
                    {"mean", operands.mean},
                    {"inverse_deviation", operands.inverse_deviation}}));
  UCUDNN_RETURN_IF_ERROR(CheckAddend(problem, {"z", operands.z}));
  if ((operands.running_mean == nullptr) !=
      (operands.running_variance == nullptr)) {
    return Fail(Code::kInvalidArgument,
                "one of the normalization's running statistics is null; both "
                "or neither are accepted");
  }
  return CheckMemory(workspace, norm.forward_workspace(), operands.reserve,
                     norm.reserve());
}

Status CheckRun(const NormProblem& problem, const FusedNorm& norm,
                const NormBackward& operands, const NormWorkspace& workspace) {
  UCUDNN_RETURN_IF_ERROR(
      CheckPresent({{"x", operands.x},
                    {"dy", operands.dy},
                    {"scale", operands.scale},
                    {"bias", operands.bias},
                    {"mean", operands.mean},
                    {"inverse_deviation", operands.inverse_deviation},
                    {"dx", operands.dx},
                    {"dscale", operands.dscale},
                    {"dbias", operands.dbias}}));
  UCUDNN_RETURN_IF_ERROR(CheckAddend(problem, {"dz", operands.dz}));
  return CheckMemory(workspace, norm.backward_workspace(), operands.reserve,
                     norm.reserve());
}

}  // namespace ucudnn
