#ifndef UCUDNN_CLIENT_GRADIENTS_ALL_REDUCE_H_
#define UCUDNN_CLIENT_GRADIENTS_ALL_REDUCE_H_

// Sums gradients over ranks wherever each rank has them: in the host's memory
// or a GPU's, which the driver tells apart. Keeps what such sums need from one
// to the next.

#include <memory>
#include <span>

#include "base/result.h"
#include "client/ranks/ranks.h"

namespace ucudnn {

class GpuGradients;

class AllReducer {
 public:
  // `ranks` outlive it.
  explicit AllReducer(Ranks& ranks);
  ~AllReducer();
  AllReducer(const AllReducer&) = delete;
  AllReducer& operator=(const AllReducer&) = delete;

  // Collective: scales `gradients` by `weight`, and sums them over the ranks,
  // in place, as SumGradients does (client/gradients/gradient_sum.h), whose
  // errors it has. `stream`, a CUstream, is what they are made in; null where
  // they are made, or what the default stream would wait for makes them. T is
  // float or double.
  template <class T>
  Status Sum(std::span<T> gradients, double weight, void* stream,
             Ranks::Deadline deadline);

 private:
  Ranks& ranks_;
  // Null until the process has loaded the driver.
  std::unique_ptr<GpuGradients> gpu_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_ALL_REDUCE_H_
