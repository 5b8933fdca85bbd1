#include "client/gradients/nccl_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace ucudnn {
namespace {

using SteadyClock = std::chrono::steady_clock;

template <class T>
constexpr NcclType kTypeOf = sizeof(T) == sizeof(float) ? NcclType::kFloat
                                                        : NcclType::kDouble;

Status CheckDistinct(const std::vector<std::string>& gpus) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const auto same = std::find(gpus.begin(), gpus.begin() + i, gpus[i]);
    if (same == gpus.begin() + i) continue;
    return Fail(Code::kFailedPrecondition, "ranks {} and {} have the same GPU",
                same - gpus.begin(), i);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<NcclGroup>> NcclGroup::Create(const NcclApi& nccl,
                                                     Ranks& ranks,
                                                     const std::string& gpu,
                                                     Ranks::Deadline deadline) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> gpus,
                          ranks.AllGather(gpu, deadline));
  UCUDNN_RETURN_IF_ERROR(CheckDistinct(gpus));
  std::unique_ptr<NcclGroup> group(new NcclGroup(nccl));
  NcclId id{};
  Status made;
  if (ranks.rank() == 0) {
    const NcclResult result = nccl.GetUniqueId(&id);
    if (result != NcclResult::kSuccess) {
      made = group->Failure(result, "ncclGetUniqueId");
    }
  }
  std::string text(id.bytes.data(), made ? id.bytes.size() : 0);
  UCUDNN_RETURN_IF_ERROR(ranks.Broadcast(&text, deadline));
  if (text.size() == id.bytes.size()) {
    std::copy(text.begin(), text.end(), id.bytes.begin());
    // Half of the time, so that the ranks can still agree to do without NCCL.
    const Ranks::Deadline soon =
        SteadyClock::now() + (deadline - SteadyClock::now()) / 2;
    made = group->Join(ranks, id, soon);
  }
  UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks.AllOf(made, deadline));
  UCUDNN_RETURN_IF_ERROR(all);
  return group;
}

NcclGroup::~NcclGroup() {
  // Unlike ncclCommDestroy, this does not wait for other ranks.
  if (comm_ != nullptr) (void)nccl_.CommAbort(comm_);
}

Status NcclGroup::Join(Ranks& ranks, const NcclId& id,
                       Ranks::Deadline deadline) {
  NcclConfig config;
  const NcclResult result =
      nccl_.CommInitRankConfig(&comm_, ranks.size(), id, ranks.rank(), &config);
  return Await(result, "ncclCommInitRankConfig", deadline);
}

template <class T>
Status NcclGroup::Sum(std::span<const std::span<T>> values, double scale,
                      CUstream stream, Ranks::Deadline deadline) {
  T factor = static_cast<T>(scale);
  UCUDNN_RETURN_IF_ERROR(SetScale(scale, kTypeOf<T>, &factor));
  NcclResult result = nccl_.GroupStart();
  for (const std::span<T> some : values) {
    if (result != NcclResult::kSuccess) break;
    result = nccl_.AllReduce(some.data(), some.data(), some.size(), kTypeOf<T>,
                             scaled_->op, comm_, stream);
    if (result == NcclResult::kInProgress) result = NcclResult::kSuccess;
  }
  // Ends the group whatever happened in it.
  const NcclResult ended = nccl_.GroupEnd();
  if (result != NcclResult::kSuccess) return Failure(result, "ncclAllReduce");
  return Await(ended, "ncclGroupEnd", deadline);
}

Status NcclGroup::SetScale(double scale, NcclType type, void* scalar) {
  if (scaled_ && scaled_->scale == scale && scaled_->type == type) return {};
  if (scaled_) (void)nccl_.RedOpDestroy(scaled_->op, comm_);
  scaled_.reset();
  ScaledSum scaled{scale, type, NcclOp::kSum};
  const NcclResult result = nccl_.RedOpCreatePreMulSum(
      &scaled.op, scalar, type, NcclResidence::kHostImmediate, comm_);
  if (result != NcclResult::kSuccess) {
    return Failure(result, "ncclRedOpCreatePreMulSum");
  }
  scaled_ = scaled;
  return {};
}

Status NcclGroup::Check() const {
  NcclResult error = NcclResult::kSuccess;
  const NcclResult result = nccl_.CommGetAsyncError(comm_, &error);
  if (result != NcclResult::kSuccess) {
    return Failure(result, "ncclCommGetAsyncError");
  }
  if (error == NcclResult::kSuccess || error == NcclResult::kInProgress) {
    return {};
  }
  return Failure(error, "a sum");
}

// Non-blocking communicators finish calls in threads of their own.
Status NcclGroup::Await(NcclResult result, const char* call,
                        Ranks::Deadline deadline) {
  while (result == NcclResult::kInProgress) {
    if (SteadyClock::now() >= deadline) {
      return Fail(Code::kDeadlineExceeded, "NCCL did not finish {} in time",
                  call);
    }
    std::this_thread::yield();
    const NcclResult asked = nccl_.CommGetAsyncError(comm_, &result);
    if (asked != NcclResult::kSuccess) result = asked;
  }
  if (result == NcclResult::kSuccess) return {};
  return Failure(result, call);
}

tl::unexpected<Error> NcclGroup::Failure(NcclResult result,
                                         const char* call) const {
  return Fail(Code::kUnavailable, "NCCL: {}: {}", call,
              nccl_.GetErrorString(result));
}

void NcclGroup::Abort() {
  if (comm_ == nullptr) return;
  std::thread([abort = nccl_.CommAbort, comm = std::exchange(comm_, nullptr)] {
    (void)abort(comm);
  }).detach();
}

template Status NcclGroup::Sum(std::span<const std::span<float>>, double,
                               CUstream, Ranks::Deadline);
template Status NcclGroup::Sum(std::span<const std::span<double>>, double,
                               CUstream, Ranks::Deadline);

}  // namespace ucudnn
