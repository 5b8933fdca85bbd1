#ifndef UCUDNN_CLIENT_GRADIENTS_NCCL_GROUP_H_
#define UCUDNN_CLIENT_GRADIENTS_NCCL_GROUP_H_

// The ranks of a job as a communicator of NCCL, which sums values in the memory
// of their GPUs without the host. The communicator is non-blocking and aborted
// after any failure, so no call waits beyond its deadline.

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "client/gradients/nccl_api.h"
#include "client/ranks/ranks.h"

namespace ucudnn {

class NcclGroup {
 public:
  // Collective, with a context of this rank's GPU current. `gpu` identifies it
  // among all hosts. All ranks return a group or the same error:
  // kFailedPrecondition if two ranks have the same GPU, kUnavailable if NCCL
  // fails on a rank, which may take half of the time until `deadline`. If the
  // ranks break, errors as Ranks::AllGather. `nccl` must outlive the result.
  static Result<std::unique_ptr<NcclGroup>> Create(const NcclApi& nccl,
                                                   Ranks& ranks,
                                                   const std::string& gpu,
                                                   Ranks::Deadline deadline);
  // Frees the communicator; no sum may be under way.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // Collective: enqueues in `stream` that `values`, in the GPU's memory, become
  // the sum of all ranks' values times their scales, by one kernel of NCCL's
  // where it can. kUnavailable if NCCL fails; kDeadlineExceeded. T is float or
  // double.
  template <class T>
  Status Sum(std::span<const std::span<T>> values, double scale,
             CUstream stream, Ranks::Deadline deadline);
  // kUnavailable if a sum failed after it was enqueued, for example because
  // another rank was lost.
  Status Check() const;
  // Ends the sums that are under way, after a failure. Returns at once: a
  // thread waits for NCCL, which takes as long as its kernels need to notice.
  void Abort();

 private:
  explicit NcclGroup(const NcclApi& nccl) : nccl_(nccl) {}
  Status Join(Ranks& ranks, const NcclId& id, Ranks::Deadline deadline);
  Status Await(NcclResult result, const char* call, Ranks::Deadline deadline);
  tl::unexpected<Error> Failure(NcclResult result, const char* call) const;
  Status SetScale(double scale, NcclType type, void* scalar);

  // A sum that multiplies by a scale first.
  struct ScaledSum {
    double scale;
    NcclType type;
    NcclOp op;
  };

  const NcclApi& nccl_;
  ncclComm* comm_ = nullptr;
  std::optional<ScaledSum> scaled_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_NCCL_GROUP_H_
