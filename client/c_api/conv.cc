// The functions of ucudnn/conv.h over client/conv.

#include "ucudnn/conv.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/plan/prediction.h"
#include "base/text.h"
#include "client/c_api/error.h"
#include "client/conv/backend.h"
#include "client/conv/planned_convolution.h"

#define UCUDNN_EXPORT __attribute__((visibility("default")))

struct ucudnn_conv_device {
  std::shared_ptr<ucudnn::ConvDevice> device;
  std::string kind;
};

struct ucudnn_conv {
  std::unique_ptr<ucudnn::PlannedConvolution> convolution;
  std::string text;
};

namespace ucudnn::c_api {
namespace {

Error& LastError() {
  thread_local Error error;
  return error;
}

template <class Body>
int Call(const Body& body) noexcept {
  return Guard(LastError(), body);
}

template <class Open>
int OpenWith(ucudnn_conv_device** device, bool deterministic,
             const Open& open) {
  return Call([&]() -> Status {
    if (device == nullptr) return IsNull("device");
    *device = nullptr;
    UCUDNN_ASSIGN_OR_RETURN(auto backend, open());
    auto opened = std::make_unique<ucudnn_conv_device>();
    UCUDNN_ASSIGN_OR_RETURN(
        opened->device, ConvDevice::Create(std::move(backend), deterministic,
                                           ProcessEnvironment()));
    opened->kind = ToString(opened->device->info().kind);
    *device = opened.release();
    return {};
  });
}

Result<ConvDevice::Kernel> ReadKernel(const char* problem, std::int64_t batch) {
  if (problem == nullptr) return IsNull("problem");
  auto read = ParseConvProblem(problem);
  if (!read) return Within("problem", std::move(read).error());
  return ConvDevice::Kernel{*std::move(read), BatchSize(batch)};
}

std::unique_ptr<ucudnn_conv> Wrap(
    std::unique_ptr<PlannedConvolution> convolution) {
  std::string text = DivisionText(convolution->plan().micro_batches);
  return std::make_unique<ucudnn_conv>(
      ucudnn_conv{std::move(convolution), std::move(text)});
}

}  // namespace
}  // namespace ucudnn::c_api

using ucudnn::Bytes;
using ucudnn::ConvDevice;
using ucudnn::Status;

extern "C" {

UCUDNN_EXPORT const char* ucudnn_conv_version(void) { return "1.2"; }

UCUDNN_EXPORT const char* ucudnn_conv_last_error(void) {
  return ucudnn::c_api::LastError().message.c_str();
}

UCUDNN_EXPORT int64_t ucudnn_conv_last_least(void) {
  return ucudnn::c_api::LastError().least.value_or(-1);
}

UCUDNN_EXPORT int ucudnn_conv_open_gpu(void* stream, int deterministic,
                                       ucudnn_conv_device** device) {
  return ucudnn::c_api::OpenWith(device, deterministic != 0, [&] {
    return ucudnn::OpenGpuBackend(stream, deterministic != 0);
  });
}

UCUDNN_EXPORT int ucudnn_conv_open_cpu(int threads,
                                       ucudnn_conv_device** device) {
  return ucudnn::c_api::OpenWith(
      device, false, [&] { return ucudnn::OpenCpuBackend(threads); });
}

UCUDNN_EXPORT const char* ucudnn_conv_device_kind(
    const ucudnn_conv_device* device) {
  return device == nullptr ? "" : device->kind.c_str();
}

UCUDNN_EXPORT void ucudnn_conv_close(ucudnn_conv_device* device) {
  delete device;
}

UCUDNN_EXPORT int ucudnn_conv_plan(ucudnn_conv_device* device,
                                   const char* problem, int64_t batch,
                                   int64_t workspace_limit,
                                   ucudnn_conv** conv) {
  return ucudnn::c_api::Call([&]() -> Status {
    if (conv == nullptr) return ucudnn::c_api::IsNull("conv");
    *conv = nullptr;
    if (device == nullptr) return ucudnn::c_api::IsNull("device");
    UCUDNN_ASSIGN_OR_RETURN(const auto kernel,
                            ucudnn::c_api::ReadKernel(problem, batch));
    UCUDNN_ASSIGN_OR_RETURN(auto planned,
                            device->device->Plan(kernel.problem, kernel.batch,
                                                 Bytes(workspace_limit)));
    *conv = ucudnn::c_api::Wrap(std::move(planned)).release();
    return {};
  });
}

UCUDNN_EXPORT int ucudnn_conv_divide(ucudnn_conv_device* device,
                                     const char* const* problems,
                                     const int64_t* batches, size_t count,
                                     int64_t total_workspace,
                                     ucudnn_conv** convs) {
  return ucudnn::c_api::Call([&]() -> Status {
    if (convs == nullptr) return ucudnn::c_api::IsNull("convs");
    for (size_t i = 0; i < count; ++i) convs[i] = nullptr;
    if (device == nullptr) return ucudnn::c_api::IsNull("device");
    if (problems == nullptr) return ucudnn::c_api::IsNull("problems");
    if (batches == nullptr) return ucudnn::c_api::IsNull("batches");
    std::vector<ConvDevice::Kernel> kernels;
    for (size_t i = 0; i < count; ++i) {
      UCUDNN_ASSIGN_OR_RETURN(
          kernels.emplace_back(),
          ucudnn::c_api::ReadKernel(problems[i], batches[i]));
    }
    UCUDNN_ASSIGN_OR_RETURN(
        auto planned, device->device->Divide(kernels, Bytes(total_workspace)));
    std::vector<std::unique_ptr<ucudnn_conv>> wrapped;
    for (auto& one : planned) {
      wrapped.push_back(ucudnn::c_api::Wrap(std::move(one)));
    }
    for (size_t i = 0; i < count; ++i) convs[i] = wrapped[i].release();
    return {};
  });
}

UCUDNN_EXPORT int64_t ucudnn_conv_workspace(const ucudnn_conv* conv) {
  return conv == nullptr ? 0 : conv->convolution->workspace().count();
}

UCUDNN_EXPORT double ucudnn_conv_time_us(const ucudnn_conv* conv) {
  return conv == nullptr ? 0
                         : ucudnn::Microseconds(conv->convolution->plan().time);
}

UCUDNN_EXPORT double ucudnn_conv_undivided_us(const ucudnn_conv* conv) {
  if (conv == nullptr) return 0;
  const auto& time = conv->convolution->plan().undivided_time;
  return time ? ucudnn::Microseconds(*time) : 0;
}

UCUDNN_EXPORT const char* ucudnn_conv_text(const ucudnn_conv* conv) {
  return conv == nullptr ? "" : conv->text.c_str();
}

UCUDNN_EXPORT int ucudnn_conv_run(ucudnn_conv* conv, void* stream,
                                  const void* a, const void* b, void* out,
                                  float alpha, float beta, void* workspace,
                                  int64_t workspace_size) {
  return ucudnn::c_api::Call([&]() -> Status {
    if (conv == nullptr) return ucudnn::c_api::IsNull("conv");
    return conv->convolution->Run(stream, {a, b, out, alpha, beta}, workspace,
                                  Bytes(workspace_size));
  });
}

UCUDNN_EXPORT void ucudnn_conv_free(ucudnn_conv* conv) { delete conv; }

}  // extern "C"
