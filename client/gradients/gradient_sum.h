#ifndef UCUDNN_CLIENT_GRADIENTS_GRADIENT_SUM_H_
#define UCUDNN_CLIENT_GRADIENTS_GRADIENT_SUM_H_

// Sums gradients over the ranks, each multiplied by its rank's weight, in
// place. They pass piece by piece through buffers of our own: after an error,
// MPI may keep using a buffer for ever, and the caller's memory may be freed by
// then. Pieces are the same on all ranks, whatever memory the gradients are in.
//
// There are three methods; all ranks use the first that all of them can:
//   NCCL, if each rank has its gradients on a GPU of its own;
//   shared memory, if all ranks are on one node and the sum is not small: each
//     rank copies its piece there, sums one part of it over all ranks, in rank
//     order, and copies the other parts' sums back;
//   MPI's own reductions, piece by piece.

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/result.h"
#include "client/ranks/ranks.h"
#include "client/ranks/shared_memory.h"

namespace ucudnn {

// The size of a piece: large enough that latency does not matter.
inline constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

// The size of a piece in shared memory: small enough to stay in a core's cache
// until it has been summed.
inline constexpr std::size_t kSharedPieceBytes = std::size_t{512} << 10;

enum class SumMethod { kNccl, kSharedMemory, kMpi };

// Splits `total` values into `parts` parts of whole cache lines, equal except
// for the last ones.
struct Part {
  std::size_t first;
  std::size_t count;
};
inline Part PartOf(std::size_t total, int parts, int part) {
  constexpr std::size_t kLine = 16;
  const auto n = static_cast<std::size_t>(parts);
  const std::size_t size = ((total + n - 1) / n + kLine - 1) / kLine * kLine;
  const std::size_t first =
      std::min(total, size * static_cast<std::size_t>(part));
  return {first, std::min(size, total - first)};
}

// One rank's gradients. T is float or double.
template <class T>
class Gradients {
 public:
  virtual ~Gradients() = default;

  virtual std::size_t count() const = 0;
  // The factor for this rank's gradients; if 0, they are not read.
  virtual double scale() const = 0;
  // Does everything that can fail on this rank alone; called once, first.
  // `window` is the memory that the ranks share, or null.
  virtual Status Prepare(const SharedMemory* window) = 0;
  // Scales `count` values from `first` on into buffer `turn`, 0 or 1, which
  // stays unchanged until the next StageScaled for that turn.
  virtual Result<T*> StageScaled(unsigned turn, std::size_t first,
                                 std::size_t count) = 0;
  // Starts copying `count` values from `first` on to `to`, in the window,
  // without scaling.
  virtual Status CopyOut(T* to, std::size_t first, std::size_t count) = 0;
  // Starts copying `count` sums from the buffer or the window back to `first`.
  virtual Status CopyIn(const T* from, std::size_t first,
                        std::size_t count) = 0;
  // Returns when all copies have ended.
  virtual Status Wait() = 0;
  // Leaks the buffers, which MPI may still use.
  virtual void Abandon() = 0;

  // After Prepare: whether CopyOut and CopyIn can use the window.
  virtual bool shares() const = 0;
  // After Prepare: whether this rank may be able to SumOnGpus.
  virtual bool may_sum_on_gpus() const { return false; }
  // Collective, if all ranks may: sums without the host. Returns whether it
  // did, the same on all ranks; if not, the gradients are as before.
  virtual Result<bool> SumOnGpus(Ranks& /*ranks*/) { return false; }
};

// Collective. All ranks return the same error if one could not prepare, or if
// their counts or types differ (kInvalidArgument). Otherwise the errors of
// `ranks`; a rank that fails midway returns its own error, after which `ranks`
// are broken and the others run into the deadline. After an error the values
// are unusable.
template <class T>
Result<SumMethod> SumGradients(Ranks& ranks, Gradients<T>& mine,
                               Ranks::Deadline deadline);

// The same for `values` in host memory. A rank with scale 0 contributes zeros,
// whatever its values are. If `ready` is an error, it counts as this rank's
// failure to prepare.
template <class T>
Result<SumMethod> ScaleAndSum(Ranks& ranks, std::span<T> values, double scale,
                              Ranks::Deadline deadline, Status ready = {});

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_GRADIENT_SUM_H_
