#ifndef UCUDNN_DEVICE_CUDNN_BRANCH_STREAM_H_
#define UCUDNN_DEVICE_CUDNN_BRANCH_STREAM_H_

// A stream, with a cuDNN handle, for work at the same time as that of another
// handle:
//
//   branch->Fork();              // follows what is on the other handle's
//   stream
//   ... enqueue on both ...
//   branch->Join();              // the other handle's stream waits for it
//
// While the other handle's stream is captured, the branch stream takes part.

#include <memory>

#include "base/result.h"
#include "device/cudnn/handle.h"

namespace ucudnn::cudnn {

class BranchStream {
 public:
  // On the same multiprocessors as the stream that is set on `trunk` now.
  // `trunk`'s context is current here, in every call and on destruction; the
  // handle outlives the result. kUnimplemented if the driver cannot do that.
  static Result<std::unique_ptr<BranchStream>> Create(CudnnHandle& trunk);
  ~BranchStream();
  BranchStream(const BranchStream&) = delete;
  BranchStream& operator=(const BranchStream&) = delete;

  CudnnHandle& handle() { return *handle_; }
  // Both neither allocate nor wait.
  Status Fork();
  Status Join();

 private:
  BranchStream(CudnnHandle& trunk, const DriverApi& driver)
      : trunk_(trunk), driver_(driver) {}
  Status Open();
  // What is enqueued on `after` from now on follows what is on `before`.
  Status Order(CUevent event, CUstream before, CUstream after);

  CudnnHandle& trunk_;
  const DriverApi& driver_;
  CUstream stream_ = nullptr;
  CUevent fork_ = nullptr;
  CUevent join_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
  std::unique_ptr<CudnnHandle> handle_;  // wraps cudnn_
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_BRANCH_STREAM_H_
