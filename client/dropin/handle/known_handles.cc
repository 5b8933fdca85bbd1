// StateOf and ForgetHandle of handle_state.h: all handles of the process.

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "client/dropin/handle/handle_state.h"

namespace ucudnn::cudnn {
namespace {

// All known handles, and the environment, which is read once.
class KnownHandles {
 public:
  static KnownHandles& Get() {
    static KnownHandles& handles = *new KnownHandles;  // outlives every handle
    return handles;
  }

  HandleState* Find(cudnnHandle_t handle) {
    if (libraries_ == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    std::unique_ptr<HandleState>& state = states_[handle];
    if (state == nullptr) {
      CUcontext context = nullptr;
      (void)libraries_->driver.CtxGetCurrent(&context);
      state = std::make_unique<HandleState>(*libraries_, handle, context,
                                            settings_);
    }
    return state.get();
  }

  void Forget(cudnnHandle_t handle) {
    std::unique_ptr<HandleState> state;
    {
      const std::lock_guard lock(mutex_);
      const auto found = states_.find(handle);
      if (found == states_.end()) return;
      state = std::move(found->second);
      states_.erase(found);
      generation_.fetch_add(1, std::memory_order_release);
    }
  }

  // Changes whenever a handle is forgotten.
  std::uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }

 private:
  KnownHandles() {
    auto settings = ResolveDropInSettings(ProcessEnvironment());
    if (!settings) {
      std::fprintf(stderr, "ucudnn is off: %s\n",
                   settings.error().message.c_str());
      return;
    }
    settings_ = *std::move(settings);
    if (settings_.disabled) return;
    if (auto libraries = LoadedLibraries()) {
      libraries_ = *libraries;
    } else if (settings_.verbose) {
      std::fprintf(stderr, "ucudnn is off: %s\n",
                   libraries.error().message.c_str());
    }
  }

  DropInSettings settings_;
  const Libraries* libraries_ = nullptr;  // null: off
  std::mutex mutex_;
  std::atomic<std::uint64_t> generation_ = 0;
  std::unordered_map<cudnnHandle_t, std::unique_ptr<HandleState>> states_;
};

}  // namespace

HandleState* StateOf(cudnnHandle_t handle) {
  struct Last {
    cudnnHandle_t handle = nullptr;
    std::uint64_t generation = 0;
    HandleState* state = nullptr;
  };
  static thread_local Last last;
  static KnownHandles& handles = KnownHandles::Get();
  const std::uint64_t generation = handles.generation();
  if (last.handle == handle && last.generation == generation) {
    return last.state;
  }
  HandleState* state = handle == nullptr ? nullptr : handles.Find(handle);
  last = {handle, generation, state};
  return state;
}

void ForgetHandle(cudnnHandle_t handle) { KnownHandles::Get().Forget(handle); }

}  // namespace ucudnn::cudnn
