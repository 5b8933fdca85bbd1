#ifndef UCUDNN_CLIENT_GRADIENTS_ALL_REDUCE_H_
#define UCUDNN_CLIENT_GRADIENTS_ALL_REDUCE_H_

// Sums gradients over ranks, wherever each rank has them: in host or GPU
// memory, which the driver distinguishes. Keeps buffers and streams from one
// sum to the next.

#include <memory>
#include <span>

#include "base/result.h"
#include "client/ranks/ranks.h"

namespace ucudnn {

class GpuGradients;

class AllReducer {
 public:
  // `ranks` must outlive it.
  explicit AllReducer(Ranks& ranks);
  ~AllReducer();
  AllReducer(const AllReducer&) = delete;
  AllReducer& operator=(const AllReducer&) = delete;

  // Collective: multiplies `gradients` by `weight` and sums them over the
  // ranks, in place, like SumGradients (client/gradients/gradient_sum.h), with
  // its errors. `stream`, a CUstream, is the stream that produces them. If
  // null, the gradients are ready or are produced in streams that the default
  // stream waits for. T is float or double.
  template <class T>
  Status Sum(std::span<T> gradients, double weight, void* stream,
             Ranks::Deadline deadline);

 private:
  Ranks& ranks_;
  // Null if the process has not loaded the driver.
  std::unique_ptr<GpuGradients> gpu_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_ALL_REDUCE_H_
