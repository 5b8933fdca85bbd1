#ifndef UCUDNN_CLIENT_GRADIENTS_GRADIENT_SUM_H_
#define UCUDNN_CLIENT_GRADIENTS_GRADIENT_SUM_H_

// Sums gradients over the ranks, each scaled by its rank's weight, in place.
// They go piece by piece through buffers of ours, because MPI may hold a buffer
// for good after an error, and the caller's memory may be gone by then. The
// pieces are alike on all ranks, whatever memory each has its gradients in.
//
// There are two ways, of which all ranks take the first that they can:
//   through memory that ranks of one node share: each puts its piece there,
//     sums up a part of it over all ranks, in rank order, and takes the others'
//     parts; small sums do not;
//   by MPI's own reductions of pieces.

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/result.h"
#include "client/ranks/ranks.h"
#include "client/ranks/shared_memory.h"

namespace ucudnn {

// Of one piece: large enough that latencies do not matter.
inline constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

// Of one in memory that ranks share: as large as stays in a core's cache until
// it has been summed up.
inline constexpr std::size_t kSharedPieceBytes = std::size_t{512} << 10;

// Values between two of `parts` parts of `total`, equal but for the last ones,
// and of whole cache lines.
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
  // By which this rank's are multiplied; with 0 they are not read.
  virtual double scale() const = 0;
  // Whatever this rank alone may fail at; called first, once. `window` is what
  // the ranks share, if anything.
  virtual Status Prepare(const SharedMemory* window) = 0;
  // Scales `count` values from `first` on into buffer `turn`, 0 or 1, which
  // stays as it is until the next StageScaled for that turn.
  virtual Result<T*> StageScaled(unsigned turn, std::size_t first,
                                 std::size_t count) = 0;
  // Begins to copy `count` values from `first` on to `to`, in the window, not
  // scaled.
  virtual Status CopyOut(T* to, std::size_t first, std::size_t count) = 0;
  // Begins to copy `count` sums from the buffer or the window back to `first`.
  virtual Status CopyIn(const T* from, std::size_t first,
                        std::size_t count) = 0;
  // Returns when all copies have ended.
  virtual Status Wait() = 0;
  // MPI may hold the buffers: they are lost.
  virtual void Abandon() = 0;

  // After Prepare: whether CopyOut and CopyIn can use the window.
  virtual bool shares() const = 0;
};

// Collective. All ranks return the same error if one could not prepare, or if
// they give unlike numbers of values or types (kInvalidArgument); otherwise the
// errors of `ranks`, and on a rank that fails in between its own, after which
// `ranks` are broken and the others run out of time. After an error the values
// are of no use.
template <class T>
Status SumGradients(Ranks& ranks, Gradients<T>& mine, Ranks::Deadline deadline);

// The same for `values` in memory of the host. With a scale of 0 a rank counts
// as zeros, whatever it holds. `ready` is what this rank has failed at already.
template <class T>
Status ScaleAndSum(Ranks& ranks, std::span<T> values, double scale,
                   Ranks::Deadline deadline, Status ready = {});

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_GRADIENT_SUM_H_
