#ifndef UCUDNN_CLIENT_GPU_GRADIENTS_H_
#define UCUDNN_CLIENT_GPU_GRADIENTS_H_

// Sums gradients that lie in a GPU's memory over the ranks, piece by piece
// through pinned memory of the host: any MPI will do. This header needs none
// of CUDA's; a build without cuDNN has no such target.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"

namespace ucudnn {

class GpuGradients {
 public:
  // Sums one piece, as Session::AllReduceGradients.
  template <class T>
  using Sum = std::function<Status(std::span<T>)>;

  GpuGradients();
  ~GpuGradients();

  // `gradients` is memory of the GPU whose context is current, `stream` the
  // CUstream they are made in. Waits for the stream; when it returns, the sums
  // are there. kUnavailable without a driver; kResourceExhausted if there is no
  // pinned memory; the errors of `sum`. T is float or double.
  template <class T>
  Status AllReduce(void* gradients, std::size_t count, void* stream,
                   const Sum<T>& sum);

 private:
  struct Staging;
  std::unique_ptr<Staging> staging_;  // made when first needed
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GPU_GRADIENTS_H_
