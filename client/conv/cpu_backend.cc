#include <utility>

#include "client/conv/backend.h"
#ifdef UCUDNN_WITH_ONEDNN
#include "device/onednn/onednn_device.h"
#endif

namespace ucudnn {

#ifdef UCUDNN_WITH_ONEDNN

namespace {

class CpuBackend final : public ConvBackend {
 public:
  explicit CpuBackend(std::unique_ptr<Device> device)
      : device_(std::move(device)) {}

  Device& device() override { return *device_; }
  Status UseStream(void* stream) override {
    if (stream == nullptr) return {};
    return Fail(Code::kInvalidArgument,
                "a stream was given; a CPU has none, and null is accepted");
  }
  Status UseOwnStream() override { return {}; }

 private:
  const std::unique_ptr<Device> device_;
};

}  // namespace

Result<std::unique_ptr<ConvBackend>> OpenCpuBackend(int threads) {
  OneDnnOptions options;
  options.threads = threads;
  UCUDNN_ASSIGN_OR_RETURN(auto device, OpenOneDnnDevice(options));
  return std::make_unique<CpuBackend>(std::move(device));
}

#else

Result<std::unique_ptr<ConvBackend>> OpenCpuBackend(int) {
  return Fail(Code::kUnavailable, "this build has no oneDNN backend");
}

#endif

}  // namespace ucudnn
