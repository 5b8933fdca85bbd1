#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_CONTEXT_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_CONTEXT_H_

// Where work on a GPU happens: the device's primary context, which the CUDA
// runtime and every library use, or a green context, which has only some of the
// multiprocessors; and one stream in it, which orders our work.
//
// The driver keeps a current context per thread. Every call into CUDA or cuDNN
// is made inside a Scope, which makes ours current and afterwards restores the
// caller's.
//
// An error such as an illegal address poisons a context: nothing works in it
// until the process ends. The context remembers that it was lost and how.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn::cudnn {

// Whether `result` means that the context is lost.
bool IsLost(CUresult result);

// "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)" with the code that
// fits; kDataLoss if the context is lost.
Error DescribeError(const DriverApi& driver, CUresult result,
                    std::string_view call);

// Calls one of the driver's functions; the error that its result means, if any.
template <class... P>
Status Call(const DriverApi& driver, const Function<CUresult(P...)>& function,
            std::type_identity_t<P>... parameters) {
  const CUresult result = function(parameters...);
  if (result == CUDA_SUCCESS) return {};
  return tl::unexpected<Error>(DescribeError(driver, result, function.name()));
}

// How many GPUs the driver offers this process: at least 1. kUnavailable.
Result<int> CountGpus(const DriverApi& driver);

// The device's UUID as NVIDIA writes it: "GPU-..." or, of a MIG instance,
// "MIG-...".
Result<std::string> UuidOf(const DriverApi& driver, CUdevice device);

// The green context that a stream belongs to; null if there is none.
CUgreenCtx GreenContextOf(const DriverApi& driver, CUstream stream);

class GpuContext {
 public:
  // Makes the context current and restores the previous one on destruction.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(const DriverApi* driver) : driver_(driver) {}
    Scope(Scope&& other) noexcept : driver_(other.driver_) {
      other.driver_ = nullptr;
    }
    Scope& operator=(Scope&&) = delete;
    ~Scope();

   private:
    const DriverApi* driver_;
  };

  // The whole device, or with `slice_sms` > 0 a green context of at least that
  // many multiprocessors, since the hardware rounds up. `name` names the device
  // in errors.
  // kUnimplemented if the driver does not support green contexts;
  // kInvalidArgument if the device has fewer multiprocessors than that.
  static Result<std::unique_ptr<GpuContext>> Create(const DriverApi& driver,
                                                    CUdevice device,
                                                    std::string name,
                                                    std::int64_t slice_sms);
  // A context that somebody else made and that outlives this: the primary one,
  // or a green one. Work goes to a stream of ours in it.
  static Result<std::unique_ptr<GpuContext>> Adopt(const DriverApi& driver,
                                                   CUcontext context,
                                                   std::string name);
  ~GpuContext();
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;

  // kDataLoss once the context is lost.
  Result<Scope> Enter();

  // The error that `result` of `call` means, if any; remembers if the context
  // is lost.
  Status Check(CUresult result, std::string_view call);
  // Calls one of the driver's functions, and checks its result.
  template <class... P>
  Status Call(const Function<CUresult(P...)>& function,
              std::type_identity_t<P>... parameters) {
    return Check(function(parameters...), function.name());
  }
  // Whether anything enqueued has poisoned the context; does not wait.
  Status CheckStream();
  const std::optional<Error>& lost() const { return lost_; }

  const DriverApi& driver() const { return driver_; }
  CUstream stream() const { return stream_; }
  // The context for others to adopt while this lives.
  CUcontext current() const { return current_; }
  const std::string& name() const { return name_; }
  // Multiprocessors that work in this context runs on.
  std::int64_t sms() const { return sms_; }
  bool is_slice() const { return is_slice_; }
  CUdevice device() const { return device_; }

 private:
  GpuContext(const DriverApi& driver, CUdevice device, std::string name)
      : driver_(driver), device_(device), name_(std::move(name)) {}
  Status Retain();
  Status Slice(std::int64_t sms);
  // Sets sms_ to those of the whole device.
  Status CountMultiprocessors();

  const DriverApi& driver_;
  const CUdevice device_;
  const std::string name_;
  CUcontext primary_ = nullptr;  // retained, if not null
  CUgreenCtx green_ = nullptr;
  CUcontext current_ = nullptr;  // primary_, or the view of green_
  CUstream stream_ = nullptr;
  std::int64_t sms_ = 0;
  bool is_slice_ = false;
  std::optional<Error> lost_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_CONTEXT_H_
