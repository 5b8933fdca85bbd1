#include "client/gradients/gpu_gradients_state.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "client/gradients/gradient_sum.h"

namespace ucudnn {

Status GpuGradients::State::AllocatePinned(void** memory) const {
  if (*memory != nullptr) return {};
  return Call(driver->MemHostAlloc, memory, kPieceBytes,
              CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

Status GpuGradients::State::PrepareStream() {
  CUcontext now = nullptr;
  UCUDNN_RETURN_IF_ERROR(Call(driver->CtxGetCurrent, &now));
  if (stream != nullptr && now == context) return {};
  FreeContexts();
  context = now;
  UCUDNN_RETURN_IF_ERROR(
      Call(driver->EventCreate, &made, CU_EVENT_DISABLE_TIMING));
  return Call(driver->StreamCreate, &stream, CU_STREAM_NON_BLOCKING);
}

bool GpuGradients::State::PrepareShared(const SharedMemory* window) {
  if (window == nullptr || shared_refused) return false;
  if (shared == window->data()) return true;
  shared_refused =
      driver->MemHostRegister == nullptr ||
      driver->MemHostUnregister == nullptr ||
      driver->MemHostRegister(window->data(), window->size(),
                              CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS;
  if (!shared_refused) shared = window->data();
  return !shared_refused;
}

bool GpuGradients::State::MayUseNccl() const {
  if (nccl == nullptr || group == nullptr) return nccl != nullptr;
  CUdevice device = 0;
  return driver->CtxGetDevice(&device) == CUDA_SUCCESS &&
         device == group_device;
}

Result<bool> GpuGradients::State::PrepareNccl(Ranks& ranks,
                                              Ranks::Deadline deadline) {
  if (group != nullptr) return true;
  UCUDNN_RETURN_IF_ERROR(Call(driver->CtxGetDevice, &group_device));
  UCUDNN_ASSIGN_OR_RETURN(const std::string uuid,
                          cudnn::UuidOf(*driver, group_device));
  auto created = NcclGroup::Create(*nccl, ranks, uuid, deadline);
  if (created) {
    group = *std::move(created);
    return true;
  }
  if (!ranks.usable()) return tl::unexpected(std::move(created).error());
  nccl = nullptr;
  why_not_nccl = std::move(created).error().message;
  return false;
}

Status GpuGradients::State::WaitForNccl(Ranks::Deadline deadline) const {
  Status sound;
  UCUDNN_RETURN_IF_ERROR(Poll(
      [&] {
        sound = group->Check();
        return sound ? driver->StreamQuery(stream) : CUDA_SUCCESS;
      },
      "cuStreamQuery", deadline));
  return sound;
}

void GpuGradients::State::FreeContexts() {
  if (context == nullptr || driver->CtxPushCurrent(context) != CUDA_SUCCESS) {
    return;
  }
  const cudnn::GpuContext::Scope scope(driver);
  if (shared != nullptr) (void)driver->MemHostUnregister(shared);
  shared = nullptr;
  if (stream != nullptr) (void)driver->StreamDestroy(stream);
  if (made != nullptr) (void)driver->EventDestroy(made);
  stream = nullptr;
  made = nullptr;
  context = nullptr;
}

void GpuGradients::State::FreePinned() {
  for (void*& memory : pinned) {
    if (memory != nullptr) (void)driver->MemFreeHost(memory);
    memory = nullptr;
  }
}

void GpuGradients::State::Abandon() {
  if (group != nullptr) group->Abort();
  group.reset();
  pinned.fill(nullptr);
  stream = nullptr;
  made = nullptr;
  shared = nullptr;
  context = nullptr;
  primary = nullptr;
}

template <class Query>
Status GpuGradients::State::Poll(const Query& query, std::string_view call,
                                 Ranks::Deadline deadline) const {
  auto pause = std::chrono::microseconds(1);
  for (int polls = 0;; ++polls) {
    const CUresult result = query();
    if (result == CUDA_SUCCESS) return {};
    if (result != CUDA_ERROR_NOT_READY) {
      return tl::unexpected<Error>(cudnn::DescribeError(*driver, result, call));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Fail(Code::kDeadlineExceeded,
                  "the work in the gradients' stream did not finish in time");
    }
    if (polls < 1000) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
}

Status GpuGradients::State::Wait(CUstream work,
                                 Ranks::Deadline deadline) const {
  return Poll([&] { return driver->StreamQuery(work); }, "cuStreamQuery",
              deadline);
}

Status GpuGradients::State::WaitForDefaultStream(
    Ranks::Deadline deadline) const {
  UCUDNN_RETURN_IF_ERROR(Call(driver->EventRecord, made, nullptr));
  return Poll([&] { return driver->EventQuery(made); }, "cuEventQuery",
              deadline);
}

Result<CUcontext> GpuGradients::State::Primary(int gpu) {
  CUdevice device = 0;
  UCUDNN_RETURN_IF_ERROR(Call(driver->DeviceGet, &device, gpu));
  if (primary != nullptr && primary_device == device) return primary;
  ReleasePrimary();
  UCUDNN_RETURN_IF_ERROR(
      Call(driver->DevicePrimaryCtxRetain, &primary, device));
  primary_device = device;
  return primary;
}

void GpuGradients::State::ReleasePrimary() {
  if (primary == nullptr) return;
  FreeContexts();
  (void)driver->DevicePrimaryCtxRelease(primary_device);
  primary = nullptr;
}

Status GpuGradients::State::Enter(
    const void* pointer, std::optional<cudnn::GpuContext::Scope>* scope) {
  const auto ask = [&](void* answer, CUpointer_attribute attribute) {
    return Call(driver->PointerGetAttribute, answer, attribute,
                DeviceAddress(pointer));
  };
  int gpu = -1;
  UCUDNN_RETURN_IF_ERROR(ask(&gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
  CUdevice current = -1;
  CUdevice wanted = -1;
  if (driver->CtxGetDevice(&current) == CUDA_SUCCESS &&
      driver->DeviceGet(&wanted, gpu) == CUDA_SUCCESS && current == wanted) {
    return {};
  }
  CUcontext context_of = nullptr;
  if (!ask(&context_of, CU_POINTER_ATTRIBUTE_CONTEXT) ||
      context_of == nullptr) {
    // Memory from a pool has no context of its own; any context of the GPU will
    // do.
    UCUDNN_ASSIGN_OR_RETURN(context_of, Primary(gpu));
  }
  UCUDNN_RETURN_IF_ERROR(Call(driver->CtxPushCurrent, context_of));
  scope->emplace(driver);
  return {};
}

}  // namespace ucudnn
