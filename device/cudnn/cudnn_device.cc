#include "device/cudnn/cudnn_device.h"

// What a GPU or a slice is, and its memory. What else a device does is in other
// files: algorithms in algorithm_families.h, timing in driver/stream_timer.h,
// capture in driver/captured_work.h, concurrent copies in driver/copy_queue.h,
// and how slices are made in driver/context.h.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "device/cudnn/algorithm_families.h"
#include "device/cudnn/driver/captured_work.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/copy_queue.h"
#include "device/cudnn/driver/event.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/driver/monitor.h"
#include "device/cudnn/driver/own_processes.h"
#include "device/cudnn/driver/stream_graph.h"
#include "device/cudnn/driver/stream_timer.h"
#include "device/cudnn/flat_tensor.h"
#include "device/cudnn/handle.h"
#include "device/cudnn/lister_pool.h"

namespace ucudnn {
namespace {

using cudnn::CudnnHandle;
using cudnn::DriverApi;
using cudnn::DriverEvent;
using cudnn::Families;
using cudnn::GpuContext;
using cudnn::Libraries;

CUdeviceptr Address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

Families FamiliesOf(const CudnnOptions& options) {
  return {options.legacy, options.graph, options.graph_if_needed,
          options.most_engines, options.branches};
}

// " MPS 50%" where the multi-process service gives this process a part of the
// GPU's multiprocessors; else empty.
std::string MpsShare() {
  const char* const percent = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  const double share = percent == nullptr ? 100 : std::strtod(percent, nullptr);
  return share > 0 && share < 100 ? fmt::format(" MPS {}%", share) : "";
}

// What the driver tells of a GPU, as far as it does: a driver may be too old
// for anything else, and cuDNN may be missing.
DeviceInfo Name(const Libraries& libraries, CUdevice device) {
  const DriverApi& driver = libraries.driver;
  DeviceInfo info;
  std::array<char, 256> model = {};
  std::size_t memory = 0;
  int units = 0;
  (void)driver.DeviceGetName(model.data(), static_cast<int>(model.size()),
                             device);
  (void)driver.DeviceTotalMem(&memory, device);
  (void)driver.DeviceGetAttribute(
      &units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  info.id = cudnn::UuidOf(driver, device).value_or("");
  info.kind.model = model.front() == '\0' ? "NVIDIA GPU" : model.data();
  info.kind.units = std::max(units, 1);
  info.kind.memory =
      1_GiB * (static_cast<std::int64_t>(memory) / (1_GiB).count());
  info.kind.library =
      libraries.cudnn.GetVersion == nullptr
          ? "no cudnn"
          : "cudnn-" + cudnn::CudnnMajorMinor(libraries.cudnn.GetVersion());
  info.driver = cudnn::DriverVersion(libraries.nvml);
  return info;
}

// kUnimplemented unless cuDNN has code for the GPU.
Status CheckCode(const Libraries& libraries, CUdevice device) {
  int major = 0;
  int minor = 0;
  if (libraries.driver.DeviceGetAttribute(
          &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) !=
          CUDA_SUCCESS ||
      libraries.driver.DeviceGetAttribute(
          &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) !=
          CUDA_SUCCESS) {
    return {};  // cuDNN tells
  }
  return cudnn::CheckCapability(libraries.cudnn.GetVersion(),
                                major * 10 + minor);
}

class CudnnDevice : public Device {
 public:
  static Result<std::unique_ptr<Device>> Open(const Libraries& libraries,
                                              int ordinal,
                                              const CudnnOptions& options);
  static Result<std::unique_ptr<Device>> OpenIn(const Libraries& libraries,
                                                CUcontext context,
                                                const CudnnOptions& options);

  const DeviceInfo& info() const override { return info_; }
  Bytes cache() const override { return cache_; }
  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem& problem,
                                                BatchSize batch) override {
    const ConvWork work = Unfold(problem, batch);
    return cudnn::ListConvolutions(*handle_, families_, work.problem,
                                   work.batch);
  }
  Result<std::vector<Candidate>> SuggestAlgorithms(const ConvProblem& problem,
                                                   BatchSize batch) override {
    const ConvWork work = Unfold(problem, batch);
    return cudnn::SuggestConvolutions(*handle_, families_, work.problem,
                                      work.batch);
  }
  std::vector<Result<std::vector<Candidate>>> ListAlgorithmsOfEach(
      const ConvProblem& problem, std::span<const BatchSize> batches) override {
    if (!families_.graph) return Device::ListAlgorithmsOfEach(problem, batches);
    std::vector<BatchSize> unfolded;
    for (const BatchSize batch : batches) {
      unfolded.push_back(Unfold(problem, batch).batch);
    }
    return lister_pool_->List(*handle_, families_,
                              Unfold(problem, BatchSize(1)).problem, unfolded);
  }
  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) override {
    const ConvWork work = Unfold(problem, batch);
    return cudnn::PrepareConvolution(*handle_, work.problem, work.batch,
                                     algorithm);
  }
  Result<DeviceBuffer> Allocate(Bytes size) override;
  Result<DeviceBuffer> AllocateHost(Bytes size) override;
  Status Upload(void* device, const void* host, Bytes size) override {
    if (size == Bytes()) return {};
    UCUDNN_RETURN_IF_ERROR(cudnn::EnqueueUpload(*context_, context_->stream(),
                                                device, host, size));
    return Synchronize();  // the copy reads the host's memory until then
  }
  Status Download(void* host, const void* device, Bytes size) override {
    if (size == Bytes()) return {};
    UCUDNN_RETURN_IF_ERROR(cudnn::EnqueueDownload(*context_, context_->stream(),
                                                  host, device, size));
    return Synchronize();
  }
  Result<std::unique_ptr<CopyQueue>> MakeCopyQueue() override {
    return cudnn::CreateCopyQueue(*context_);
  }
  Status Fill(void* device, unsigned char byte, Bytes size) override {
    if (size == Bytes()) return {};
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_->Enter());
    return context_->Call(driver_.MemsetD8Async, Address(device), byte,
                          static_cast<std::size_t>(size.count()),
                          context_->stream());
  }
  Status Scale(float* device, std::int64_t count, float factor) override {
    if (count == 0) return {};
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_->Enter());
    UCUDNN_ASSIGN_OR_RETURN(
        const auto tensor,
        cudnn::FlatTensor::Create(*handle_, count, CUDNN_DATA_FLOAT));
    return tensor->Scale(device, factor);
  }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_->Enter());
    return timer_->Time(work);
  }
  Result<EnqueuedTime> TimeEnqueued(
      const std::function<Status()>& work) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_->Enter());
    return timer_->TimeEnqueued(work);
  }
  bool can_capture() const override { return cudnn::HasGraphs(driver_); }
  bool can_fork() const override {
    return can_capture() && cudnn::CanFork(driver_);
  }
  Result<std::unique_ptr<CapturedWork>> CaptureParts(
      std::span<const CapturePart> parts,
      std::unique_ptr<CapturedWork> replaced) override {
    return cudnn::CaptureWork(*context_, parts, std::move(replaced));
  }
  Result<std::unique_ptr<Event>> MakeEvent() override {
    return DriverEvent::Create(*context_);
  }
  Status WaitFor(Event& event) override {
    UCUDNN_ASSIGN_OR_RETURN(DriverEvent* const ours,
                            cudnn::DriverEventOf(event));
    return ours->WaitIn(context_->stream());
  }
  Status Synchronize() override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_->Enter());
    return context_->Call(driver_.StreamSynchronize, context_->stream());
  }
  void* stream() override { return context_->stream(); }
  std::string BusyWith() override;

  CudnnHandle& handle() { return *handle_; }

 private:
  CudnnDevice(const DriverApi& driver, Families families, int listing_threads)
      : driver_(driver),
        families_(families),
        listing_threads_(listing_threads) {}
  // Fills in info_ except for the multiprocessors.
  Status Describe(const Libraries& libraries, CUdevice device);
  // Fills in the rest from the context.
  Status Finish(const Libraries& libraries);

  const DriverApi& driver_;
  const Families families_;
  const int listing_threads_;
  DeviceInfo info_;
  Bytes cache_;  // L2, shared by slices
  // In order of creation; handle and events are destroyed before their context.
  std::unique_ptr<GpuContext> context_;
  std::unique_ptr<cudnn::StreamTimer> timer_;
  std::unique_ptr<CudnnHandle> handle_;
  std::unique_ptr<cudnn::ListerPool> lister_pool_;
};

Result<std::unique_ptr<Device>> CudnnDevice::Open(const Libraries& libraries,
                                                  int ordinal,
                                                  const CudnnOptions& options) {
  const DriverApi& driver = libraries.driver;
  std::unique_ptr<CudnnDevice> result(
      new CudnnDevice(driver, FamiliesOf(options), options.listing_threads));
  CUdevice device = 0;
  Status known = cudnn::Call(driver, driver.DeviceGet, &device, ordinal);
  if (known) known = result->Describe(libraries, device);
  if (!known) return Within(fmt::format("GPU {}", ordinal), known.error());
  const DeviceInfo& info = result->info_;
  const auto before = ComputeProcesses(info.id);
  UCUDNN_ASSIGN_OR_RETURN(
      result->context_,
      GpuContext::Create(driver, device,
                         fmt::format("{} ({})", info.kind.model, info.id),
                         options.slice_sms));
  cudnn::LearnOwnProcess(before, ComputeProcesses(info.id));
  UCUDNN_RETURN_IF_ERROR(result->Finish(libraries));
  return result;
}

Result<std::unique_ptr<Device>> CudnnDevice::OpenIn(
    const Libraries& libraries, CUcontext context,
    const CudnnOptions& options) {
  const DriverApi& driver = libraries.driver;
  std::unique_ptr<CudnnDevice> result(
      new CudnnDevice(driver, FamiliesOf(options), options.listing_threads));
  UCUDNN_ASSIGN_OR_RETURN(result->context_,
                          GpuContext::Adopt(driver, context, "the GPU"));
  const CUdevice device = result->context_->device();
  if (const Status known = result->Describe(libraries, device); !known) {
    return Within("the GPU", known.error());
  }
  UCUDNN_RETURN_IF_ERROR(result->Finish(libraries));
  return result;
}

Status CudnnDevice::Describe(const Libraries& libraries, CUdevice device) {
  UCUDNN_RETURN_IF_ERROR(CheckCode(libraries, device));
  int cuda = 0;
  UCUDNN_RETURN_IF_ERROR(cudnn::Call(driver_, driver_.DriverGetVersion, &cuda));
  int l2 = 0;
  UCUDNN_RETURN_IF_ERROR(cudnn::Call(driver_, driver_.DeviceGetAttribute, &l2,
                                     CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
                                     device));
  cache_ = Bytes(std::max(l2, 0));
  UCUDNN_RETURN_IF_ERROR(cudnn::UuidOf(driver_, device));
  info_ = Name(libraries, device);
  info_.kind.model += MpsShare();
  info_.driver =
      fmt::format("{}, CUDA {}{}", info_.driver, cudnn::CudaVersion(cuda),
                  families_.branches ? ", two branches" : "");
  return {};
}

Status CudnnDevice::Finish(const Libraries& libraries) {
  GpuContext& context = *context_;
  info_.kind.units = context.sms();
  if (context.is_slice()) info_.id += fmt::format("/{}sm", context.sms());
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context.Enter());
  UCUDNN_ASSIGN_OR_RETURN(timer_, cudnn::StreamTimer::Create(context));
  UCUDNN_ASSIGN_OR_RETURN(handle_,
                          CudnnHandle::Create(libraries.cudnn, context));
  lister_pool_ = std::make_unique<cudnn::ListerPool>(libraries.cudnn, context,
                                                     listing_threads_);
  return {};
}

Result<DeviceBuffer> CudnnDevice::Allocate(Bytes size) {
  if (size < Bytes()) {
    return Fail(Code::kInvalidArgument, "{} bytes cannot be allocated",
                size.count());
  }
  if (size == Bytes()) return DeviceBuffer();
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_->Enter());
  CUdeviceptr address = 0;
  const CUresult result =
      driver_.MemAlloc(&address, static_cast<std::size_t>(size.count()));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    std::size_t free = 0;
    std::size_t total = 0;
    UCUDNN_RETURN_IF_ERROR(context_->Call(driver_.MemGetInfo, &free, &total));
    return Fail(Code::kResourceExhausted, "{}: {} requested, {} of {} free",
                info_.id, HumanBytes(size),
                HumanBytes(Bytes(static_cast<std::int64_t>(free))),
                HumanBytes(Bytes(static_cast<std::int64_t>(total))));
  }
  UCUDNN_RETURN_IF_ERROR(context_->Check(result, "cuMemAlloc"));
  return DeviceBuffer(reinterpret_cast<void*>(address), size,
                      [context = context_.get()](void* data) {
                        // In a lost context nothing can be released.
                        if (const auto inside = context->Enter()) {
                          (void)context->Call(context->driver().MemFree,
                                              Address(data));
                        }
                      });
}

Result<DeviceBuffer> CudnnDevice::AllocateHost(Bytes size) {
  // Old drivers can copy from any host memory.
  if (driver_.MemHostAlloc == nullptr || driver_.MemFreeHost == nullptr ||
      size <= Bytes()) {
    return Device::AllocateHost(size);
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_->Enter());
  void* memory = nullptr;
  UCUDNN_RETURN_IF_ERROR(context_->Call(driver_.MemHostAlloc, &memory,
                                        static_cast<std::size_t>(size.count()),
                                        CU_MEMHOSTALLOC_PORTABLE));
  return DeviceBuffer(memory, size, [context = context_.get()](void* data) {
    if (const auto inside = context->Enter()) {
      (void)context->Call(context->driver().MemFreeHost, data);
    }
  });
}

std::string CudnnDevice::BusyWith() {
  const auto processes = ComputeProcesses(info_.id);
  if (!processes) return {};
  std::string others;
  for (const GpuProcess& process : *processes) {
    if (cudnn::IsOwnProcess(process)) continue;
    if (!others.empty()) others += ", ";
    others += ToString(process);
  }
  return others;
}

}  // namespace

cudnn::CudnnHandle* cudnn::HandleOf(Device& device) {
  auto* ours = dynamic_cast<CudnnDevice*>(&device);
  return ours == nullptr ? nullptr : &ours->handle();
}

Result<std::int64_t> ParseSlice(std::string_view text) {
  constexpr std::string_view kPrefix = "sm=";
  if (!text.starts_with(kPrefix)) {
    return Fail(Code::kInvalidArgument,
                "'{}' is not a slice; sm=<multiprocessors> is accepted, such "
                "as sm=32",
                Excerpt(text));
  }
  auto sms = ParseInteger(text.substr(kPrefix.size()), 1, 4096);
  if (!sms) return Within("sm", sms.error());
  return *sms;
}

Result<std::vector<std::unique_ptr<Device>>> OpenCudnnDevices(
    const CudnnOptions& options) {
  const Result<Libraries>& libraries = cudnn::FoundLibraries();
  if (!libraries) return tl::unexpected<Error>(libraries.error());
  const DriverApi& driver = libraries->driver;
  UCUDNN_ASSIGN_OR_RETURN(const int count, cudnn::CountGpus(driver));
  std::vector<int> ordinals = options.ordinals;
  if (ordinals.empty()) {
    for (int i = 0; i < count; ++i) ordinals.push_back(i);
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (const int ordinal : ordinals) {
    if (ordinal < 0 || ordinal >= count) {
      return Fail(Code::kInvalidArgument,
                  "there is no GPU {}; this machine has {}, counted from 0",
                  ordinal, count);
    }
    Result<std::unique_ptr<Device>> device =
        libraries->usable ? CudnnDevice::Open(*libraries, ordinal, options)
                          : tl::unexpected<Error>(libraries->usable.error());
    if (device) {
      devices.push_back(*std::move(device));
      continue;
    }
    if (!options.on_failure) {
      return tl::unexpected<Error>(std::move(device).error());
    }
    CUdevice gpu = -1;  // no GPU's
    (void)driver.DeviceGet(&gpu, ordinal);
    options.on_failure(Name(*libraries, gpu), device.error());
  }
  return devices;
}

Result<std::unique_ptr<Device>> OpenCudnnDeviceIn(void* context,
                                                  const CudnnOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const Libraries* libraries, cudnn::LoadedLibraries());
  return CudnnDevice::OpenIn(*libraries, static_cast<CUcontext>(context),
                             options);
}

}  // namespace ucudnn
