#ifndef UCUDNN_CLIENT_GRADIENT_SUM_H_
#define UCUDNN_CLIENT_GRADIENT_SUM_H_

// Sums gradients over the ranks, each scaled by its rank's weight, in place.
// They go piece by piece through buffers of ours, because MPI may hold a buffer
// for good after an error, and the caller's memory may be gone by then. The
// pieces are alike on all ranks, whatever memory each has its gradients in.

#include <cstddef>
#include <span>

#include "base/result.h"
#include "client/ranks.h"

namespace ucudnn {

// Of one piece: large enough that latencies do not matter.
inline constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

// One rank's gradients. T is float or double.
template <class T>
class Gradients {
 public:
  virtual ~Gradients() = default;

  virtual std::size_t count() const = 0;
  // Whatever this rank alone may fail at; called first, once.
  virtual Status Prepare() = 0;
  // Scales `count` values from `first` on into buffer `turn`, 0 or 1, which
  // stays as it is until the next Take for that turn.
  virtual Result<T*> Take(unsigned turn, std::size_t first,
                          std::size_t count) = 0;
  // The buffer has the sums of these values.
  virtual Status Give(unsigned turn, std::size_t first, std::size_t count) = 0;
  // Returns when all that was given is in its place.
  virtual Status Finish() = 0;
  // MPI may hold the buffers: they are lost.
  virtual void Abandon() = 0;

  // After Prepare: whether MPI takes the memory itself. If it does on all
  // ranks, SumDirectly replaces the four above.
  virtual bool direct() const = 0;
  virtual Status SumDirectly(Ranks& ranks, Ranks::Deadline deadline) = 0;
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

#endif  // UCUDNN_CLIENT_GRADIENT_SUM_H_
