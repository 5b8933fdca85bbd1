// One rank of gradients_test's jobs: sums values that every rank can compute,
// in host memory and in that of a fake driver that delays all work until it is
// waited for, and writes down the results.
//
//   gradient_ranks FOLDER CASE [apart]
//
// With the third argument the ranks share no memory.

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/gradients/gpu_gradients.h"
#include "client/gradients/gradient_sum.h"
#include "client/ranks/ranks.h"
#include "device/cudnn/driver/libraries.h"
#include "tests/client/gradients/fake_nccl.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

template <class T>
T* Pointer(CUdeviceptr address) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

// A fake GPU whose memory is the host's. Like a real one, it works
// asynchronously: enqueued work runs at the second query.
struct FakeGpu {
  std::map<std::uintptr_t, std::vector<std::uint64_t>> memory;
  std::deque<std::function<bool()>> queue;  // each is repeated until true
  bool looked_at = false;
  bool stuck = false;  // nothing that is enqueued ever ends
  bool no_pinned = false;
  bool no_shared = false;
  int dies_at = -1;                   // which copy to the host, counted from 0
  const std::byte* shared = nullptr;  // what is registered
  std::size_t shared_size = 0;
  std::map<std::string, int> calls;
  int number = 0;  // in its UUID

  CUresult Query() {
    looked_at = !looked_at;
    if (stuck || looked_at) return CUDA_ERROR_NOT_READY;
    for (; !queue.empty(); queue.pop_front()) {
      if (!queue.front()()) return CUDA_ERROR_NOT_READY;
    }
    return CUDA_SUCCESS;
  }
  template <class Work>
  void Enqueue(Work work) {
    queue.emplace_back([work = std::move(work)] {
      work();
      return true;
    });
  }
  void* Allocate(std::size_t bytes) {
    std::vector<std::uint64_t> words((bytes + 7) / 8);
    void* const start = words.data();
    memory.emplace(reinterpret_cast<std::uintptr_t>(start), std::move(words));
    return start;
  }
  void Free(const void* start) {
    memory.erase(reinterpret_cast<std::uintptr_t>(start));
  }
};
FakeGpu gpu;

cudnn::DriverApi Driver() {
  cudnn::DriverApi api = {};
  api.GetErrorName = [](CUresult, const char** name) {
    *name = nullptr;
    return CUDA_SUCCESS;
  };
  api.GetErrorString = [](CUresult, const char** text) {
    *text = nullptr;
    return CUDA_SUCCESS;
  };
  api.DeviceGet = [](CUdevice* device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
  };
  api.CtxGetDevice = [](CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
  };
  api.CtxGetCurrent = [](CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(std::intptr_t{7});
    return CUDA_SUCCESS;
  };
  api.CtxPushCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  api.CtxPopCurrent = [](CUcontext*) { return CUDA_SUCCESS; };
  api.PointerGetAttribute = [](void* answer, CUpointer_attribute attribute,
                               CUdeviceptr address) {
    const auto after = gpu.memory.upper_bound(address);
    if (after == gpu.memory.begin() ||
        std::prev(after)->first + 8 * std::prev(after)->second.size() <=
            address) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *static_cast<int*>(answer) = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE
                                     ? CU_MEMORYTYPE_DEVICE
                                     : 0;
    return CUDA_SUCCESS;
  };
  api.DeviceGetName = [](char* name, int, CUdevice) {
    *name = '\0';
    return CUDA_SUCCESS;
  };
  api.DeviceGetUuid = [](CUuuid* uuid, CUdevice) {
    *uuid = {};
    uuid->bytes[0] = static_cast<char>(gpu.number);
    return CUDA_SUCCESS;
  };
  api.MemsetD8Async = [](CUdeviceptr to, unsigned char value, std::size_t size,
                         CUstream) {
    gpu.Enqueue([=] { std::memset(Pointer<void>(to), value, size); });
    return CUDA_SUCCESS;
  };
  api.MemHostAlloc = [](void** memory, std::size_t size, unsigned) {
    ++gpu.calls["pinned"];
    if (gpu.no_pinned) return CUDA_ERROR_OUT_OF_MEMORY;
    *memory = gpu.Allocate(size);
    return CUDA_SUCCESS;
  };
  api.MemFreeHost = [](void* memory) {
    gpu.Free(memory);
    return CUDA_SUCCESS;
  };
  api.MemHostRegister = [](void* memory, std::size_t size, unsigned) {
    ++gpu.calls["registered"];
    if (gpu.no_shared) return CUDA_ERROR_NOT_SUPPORTED;
    gpu.shared = static_cast<std::byte*>(memory);
    gpu.shared_size = size;
    return CUDA_SUCCESS;
  };
  api.MemHostUnregister = [](void* memory) {
    if (memory == gpu.shared) gpu.shared = nullptr;
    return CUDA_SUCCESS;
  };
  api.MemcpyDtoHAsync = [](void* to, CUdeviceptr from, std::size_t size,
                           CUstream) {
    if (gpu.calls["to_host"]++ == gpu.dies_at) _exit(1);
    const auto* const at = static_cast<std::byte*>(to);
    if (gpu.shared != nullptr && at >= gpu.shared &&
        at < gpu.shared + gpu.shared_size) {
      ++gpu.calls["to_window"];
    }
    gpu.Enqueue([=] { std::memcpy(to, Pointer<void>(from), size); });
    return CUDA_SUCCESS;
  };
  api.MemcpyHtoDAsync = [](CUdeviceptr to, const void* from, std::size_t size,
                           CUstream) {
    gpu.Enqueue([=] { std::memcpy(Pointer<void>(to), from, size); });
    return CUDA_SUCCESS;
  };
  api.StreamCreate = [](CUstream* stream, unsigned) {
    ++gpu.calls["stream"];
    *stream = reinterpret_cast<CUstream>(std::intptr_t{9});
    return CUDA_SUCCESS;
  };
  api.EventCreate = [](CUevent* event, unsigned) {
    *event = reinterpret_cast<CUevent>(std::intptr_t{10});
    return CUDA_SUCCESS;
  };
  api.EventDestroy = [](CUevent) { return CUDA_SUCCESS; };
  api.EventRecord = [](CUevent, CUstream stream) {
    if (stream == nullptr) ++gpu.calls["default_stream"];
    return CUDA_SUCCESS;
  };
  api.EventQuery = [](CUevent) { return gpu.Query(); };
  api.StreamDestroy = [](CUstream) { return CUDA_SUCCESS; };
  api.StreamQuery = [](CUstream) { return gpu.Query(); };
  return api;
}

// A value in [-1, 1] from a rank and an index.
double Value(int rank, std::size_t i) {
  std::uint64_t x = (i + 1) * 0x9E3779B97F4A7C15U +
                    static_cast<std::uint64_t>(rank) * 0xBF58476D1CE4E5B9U;
  x ^= x >> 31U;
  x *= 0x94D049BB133111EBU;
  return static_cast<double>(x >> 11U) / static_cast<double>(1LL << 52) - 1;
}

class Summing {
 public:
  Summing(Ranks& ranks, const std::string& folder, std::string what)
      : ranks_(ranks), what_(std::move(what)), driver_(Driver()) {
    const bool last = ranks.rank() == ranks.size() - 1;
    gpu.stuck = what_ == "stuck" && last;
    gpu.no_pinned = what_ == "no_pinned" && last;
    gpu.no_shared = what_ == "no_shared" && last;
    if (what_ == "dies" && last) gpu.dies_at = 7;
    on_gpu_ = what_ != "host" && (what_ != "mixed" || last);
    // "nccl", "nccl_...": each rank has a GPU of its own.
    const bool nccl = what_.starts_with("nccl");
    if (nccl && what_ != "nccl_shared_gpu") gpu.number = ranks.rank();
    if (nccl) {
      test::FakeNccl& fake = test::FakeNccl::Get();
      fake.folder = folder;
      fake.enqueue = [](std::function<bool()> work) {
        gpu.queue.push_back(std::move(work));
      };
      fake.refuses = what_ == "nccl_refuses" && last;
      fake.fails_at = what_ == "nccl_fails" && last ? 3 : -1;
      fake.dies_at = what_ == "nccl_dies" && last ? 3 : -1;
      gpu.stuck = what_ == "nccl_stuck" && last;
    }
    on_gpu_ = on_gpu_ && !(what_ == "nccl_mixed" && last);
    gradients_ =
        GpuGradients::With(driver_, nccl ? &test::FakeNccl::Api() : nullptr);
    // The ranks' weights are in the ratio 2, 3, ..., or the first rank's is 0.
    parts_ = what_ == "zero" || what_ == "nccl_zero" ? -1 : 1;
  }

  Json Run() {
    const std::size_t piece = kPieceBytes / sizeof(float);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{1023},
          piece, piece + 1, 3 * piece + 12345}) {
      Sum<float>(count, 1e-6);
      if (json_.contains("code")) return json_;
    }
    Sum<double>(piece - 7, 1e-14);
    json_["calls"] = gpu.calls;
    return json_;
  }

 private:
  double WeightOf(int rank) const {
    double all = 0;
    for (int r = 0; r < ranks_.size(); ++r) all += r + 1 + parts_;
    return (rank + 1 + parts_) / all;
  }

  // How long a sum may take, in milliseconds; short where it will not end.
  int Bound() const {
    if (what_.ends_with("stuck")) return 500;
    const bool fails = what_.ends_with("dies") || what_.ends_with("fails") ||
                       what_.ends_with("refuses");
    return fails ? 3'000 : 60'000;
  }

  // As a job's exchange does it: enqueued, and asked whether it is done. The
  // values are scaled before.
  template <class T>
  Result<SumMethod> Enqueued(T* values, std::size_t count,
                             Ranks::Deadline deadline) {
    UCUDNN_ASSIGN_OR_RETURN(const bool enqueues, gradients_->PrepareToEnqueue(
                                                     ranks_, values, deadline));
    if (!enqueues) return Fail(Code::kUnavailable, "a rank cannot enqueue");
    const T weight = static_cast<T>(WeightOf(ranks_.rank()));
    std::transform(values, values + count, values,
                   [weight](T value) { return value * weight; });
    if (what_ == "nccl_enqueued_alarm" && ranks_.rank() == 1) {
      ranks_.Alarm();
      return Fail(Code::kCancelled, "this rank cannot go on");
    }
    const std::size_t half = count / 2;
    const std::array<std::span<T>, 2> parts = {
        std::span(values, half), std::span(values + half, count - half)};
    UCUDNN_RETURN_IF_ERROR(gradients_->Enqueue<T>(parts, nullptr, deadline));
    for (;;) {
      UCUDNN_RETURN_IF_ERROR(gradients_->Check());
      if (gpu.Query() == CUDA_SUCCESS) return SumMethod::kNccl;
      if (ranks_.Alarmed()) {
        gradients_->Abort();
        return gradients_->Check()
                   ? Fail(Code::kInternal, "a sum that was ended goes on")
                   : Fail(Code::kCancelled, "another rank cannot go on");
      }
    }
  }

  template <class T>
  void Sum(std::size_t count, double tolerance) {
    const int rank = ranks_.rank();
    if (what_ == "unlike_counts") count += static_cast<std::size_t>(rank);
    const double weight = WeightOf(rank);
    std::vector<T> own(on_gpu_ ? 0 : count);
    T* const values =
        on_gpu_ ? static_cast<T*>(gpu.Allocate((count + 1) * sizeof(T)))
                : own.data();
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = weight == 0 ? std::numeric_limits<T>::quiet_NaN()
                              : static_cast<T>(Value(rank, i));
    }
    const auto deadline =
        std::chrono::steady_clock::now() + milliseconds(Bound());
    json_["is_gpu_memory"] = gradients_->IsGpuMemory(values);
    const Result<SumMethod> summed =
        what_.starts_with("nccl_enqueued") ? Enqueued(values, count, deadline)
        : on_gpu_
            ? gradients_->ScaleAndSum(ranks_, values, count, weight, nullptr,
                                      deadline)
            : ScaleAndSum(ranks_, std::span(values, count), weight, deadline);
    if (!summed) {
      json_["code"] = CodeName(summed.error().code);
      json_["message"] = summed.error().message;
      return;
    }
    json_["methods"].push_back(static_cast<int>(*summed));
    json_["why_not_nccl"] = gradients_->why_not_nccl();
    double worst = 0;
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < count; ++i) {
      double expected = 0;
      for (int r = 0; r < ranks_.size(); ++r) {
        if (WeightOf(r) > 0) expected += WeightOf(r) * Value(r, i);
      }
      const double off = std::abs(static_cast<double>(values[i]) - expected);
      worst = std::isfinite(off) ? std::max(worst, off) : 1e30;
      std::uint64_t bits = 0;
      std::memcpy(&bits, &values[i], sizeof(T));
      hash = hash * 31 + bits;
    }
    json_["sums"].push_back(
        {{"count", count}, {"right", worst <= tolerance}, {"hash", hash}});
    if (on_gpu_) gpu.Free(values);
  }

  Ranks& ranks_;
  const std::string what_;
  const cudnn::DriverApi driver_;
  std::unique_ptr<GpuGradients> gradients_;
  bool on_gpu_ = false;
  int parts_ = 0;
  Json json_;
};

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto soon = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto ranks = Ranks::Duplicate(MPI_COMM_WORLD, soon).value();
  if (argc > 3) ranks->ForgoWindow();
  Json json;
  {
    Summing summing(*ranks, argv[1], argc > 2 ? argv[2] : "host");
    json = summing.Run();
  }
  json["held"] = gpu.memory.size() + (gpu.shared == nullptr ? 0 : 1);
  json["window"] = ranks->usable() && ranks->Window(0, soon).value() != nullptr;
  json["usable"] = ranks->usable();
  std::ofstream(fmt::format("{}/rank{}.json", argv[1], ranks->rank()))
      << json.dump(2);
  // MPI_Finalize would wait for what is still in flight.
  if (!ranks->usable()) _exit(0);
  ranks->Close();
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
