// Compares sums over ranks of gradients in GPU memory with sums in host memory:
// random values and sizes, floats and doubles, uneven weights, a rank without
// images, streams, memory whose kind only the driver knows; by NCCL where each
// rank has a GPU of its own, through shared memory and through MPI; while
// another stream is busy. Ranks use the GPUs in turn. Prints one line per case;
// returns 1 if a result is wrong or a sum waits for a stream that it need not
// wait for.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/gradients/gpu_gradients.h"
#include "client/gradients/gradient_sum.h"
#include "client/gradients/nccl_api.h"
#include "client/ranks/ranks.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/driver/stream_gate.h"
#include "ucudnn/mpi.hpp"

namespace ucudnn {
namespace {

using cudnn::DriverApi;

Ranks::Deadline Soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

void Need(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s: CUDA error %d\n", what, static_cast<int>(result));
  MPI_Abort(MPI_COMM_WORLD, 2);
}

template <class T>
void Need(const tl::expected<T, Error>& result, const char* what) {
  if (result) return;
  std::printf("%s: %s\n", what, result.error().message.c_str());
  MPI_Abort(MPI_COMM_WORLD, 2);
}

// Device memory holding these values.
template <class T>
class OnDevice {
 public:
  OnDevice(const DriverApi& driver, const std::vector<T>& values)
      : driver_(driver), size_(values.size()) {
    Need(driver_.MemAlloc(&address_, (size_ + 1) * sizeof(T)), "cuMemAlloc");
    if (size_ == 0) return;
    Need(driver_.MemcpyHtoDAsync(address_, values.data(), size_ * sizeof(T),
                                 nullptr),
         "cuMemcpyHtoDAsync");
    Need(driver_.StreamSynchronize(nullptr), "cuStreamSynchronize");
  }
  ~OnDevice() { (void)driver_.MemFree(address_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* get() const { return reinterpret_cast<T*>(address_); }
  std::vector<T> Values() const {
    std::vector<T> values(size_);
    if (size_ == 0) return values;
    Need(driver_.MemcpyDtoHAsync(values.data(), address_, size_ * sizeof(T),
                                 nullptr),
         "cuMemcpyDtoHAsync");
    Need(driver_.StreamSynchronize(nullptr), "cuStreamSynchronize");
    return values;
  }

 private:
  const DriverApi& driver_;
  const std::size_t size_;
  CUdeviceptr address_ = 0;
};

template <class T>
std::vector<T> Random(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<T> one(-1, 1);
  std::vector<T> values(size);
  for (T& value : values) value = one(random);
  return values;
}

// The largest difference; 1e30 if one is not finite.
template <class T>
double Difference(const std::vector<T>& a, const std::vector<T>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(double{a[i]} - double{b[i]});
    if (!std::isfinite(off)) return 1e30;
    largest = std::max(largest, off);
  }
  return largest;
}

class Checks {
 public:
  Checks(const DriverApi& driver, Ranks& ranks)
      : driver_(driver), ranks_(ranks) {}

  // Rank 0 prints the worst result of all ranks.
  void Tell(const std::string& what, double off, double tolerance,
            double milliseconds = 0) {
    const bool right = off <= tolerance;
    const auto wrong = ranks_.Max(right ? 0 : 1, Soon());
    const auto most = ranks_.Max(
        static_cast<std::int64_t>(std::min(off, 1e6) * 1e12), Soon());
    if (!wrong || !most) MPI_Abort(MPI_COMM_WORLD, 2);
    if (*wrong > 0) failed_ = true;
    if (ranks_.rank() != 0) return;
    std::printf("%s %s: off by %.1e", *wrong > 0 ? "WRONG" : "ok", what.c_str(),
                static_cast<double>(*most) / 1e12);
    if (milliseconds > 0) std::printf(", %.2f ms", milliseconds);
    std::printf("\n");
  }

  // Sums by `method`, compared with sums in host memory. Through the host, the
  // same values in the same pieces give the same bits; NCCL rounds otherwise.
  template <class T>
  void OnPath(const char* name, SumMethod method, GpuGradients& gpu,
              Ranks& ranks, double scale, std::size_t size, unsigned seed) {
    const auto mine =
        Random<T>(size, seed + static_cast<unsigned>(ranks.rank()));
    std::vector<T> expected = mine;
    Need(ScaleAndSum(ranks, std::span<T>(expected), scale, Soon()), "host");
    std::vector<T> held = mine;
    if (scale == 0) {
      std::fill(held.begin(), held.end(), std::numeric_limits<T>::quiet_NaN());
    }
    const OnDevice<T> memory(driver_, held);
    CUstream stream = nullptr;
    Need(driver_.StreamCreate(&stream, CU_STREAM_NON_BLOCKING),
         "cuStreamCreate");
    Need(gpu.ScaleAndSum(ranks, memory.get(), 0, scale, stream, Soon()),
         "nothing");
    // Exclude one-time preparations from the timing.
    Need(gpu.ScaleAndSum(ranks, OnDevice<T>(driver_, held).get(), size, scale,
                         stream, Soon()),
         name);
    const auto start = std::chrono::steady_clock::now();
    const Result<SumMethod> used =
        gpu.ScaleAndSum(ranks, memory.get(), size, scale, stream, Soon());
    Need(used, name);
    const double took = std::chrono::duration<double, std::milli>(
                            std::chrono::steady_clock::now() - start)
                            .count();
    Need(driver_.StreamDestroy(stream), "cuStreamDestroy");
    const double tolerance = method != SumMethod::kNccl ? 0
                             : sizeof(T) == 4           ? 1e-6
                                                        : 1e-15;
    Tell(fmt::format("{}, {} {}, scale {:.3f}", name, size,
                     sizeof(T) == 4 ? "floats" : "doubles", scale),
         Difference(memory.Values(), expected), tolerance, took);
    if (*used != method && method == SumMethod::kNccl) {
      Tell(fmt::format("{} is used ({})", name, gpu.why_not_nccl()), 1, 0);
    }
  }

  // Sums while a stream of the same context is blocked: first without a stream,
  // like a program that has waited for an event, then in one of two other
  // streams.
  void BesideOtherStreams(CUcontext context, GpuGradients& gpu, Ranks& ranks,
                          const char* name) {
    constexpr std::size_t kSize = 3'000'001;
    auto busy = cudnn::GpuContext::Adopt(driver_, context, "the GPU");
    Need(busy ? Status() : tl::unexpected<Error>(busy.error()), "context");
    CUstream stream = nullptr;
    Need(driver_.StreamCreate(&stream, CU_STREAM_NON_BLOCKING),
         "cuStreamCreate");
    for (CUstream made_in : {CUstream{nullptr}, stream}) {
      const auto mine =
          Random<float>(kSize, 55 + static_cast<unsigned>(ranks.rank()));
      std::vector<float> expected = mine;
      Need(ScaleAndSum(ranks, std::span<float>(expected), 0.25, Soon()),
           "host");
      const OnDevice<float> memory(driver_, std::vector<float>(kSize, 9));
      const OnDevice<float> other(driver_, std::vector<float>(kSize, 1));
      // Computed in the stream just before; the other's buffer is filled by the
      // busy one.
      Need(driver_.MemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(memory.get()),
                                   mine.data(), kSize * sizeof(float), made_in),
           "cuMemcpyHtoDAsync");
      auto gate = cudnn::StreamGate::Begin(**busy, std::chrono::seconds(10));
      Need(gate ? Status() : tl::unexpected<Error>(gate.error()), "gate");
      Need(driver_.MemsetD8Async(reinterpret_cast<CUdeviceptr>(other.get()), 0,
                                 kSize * sizeof(float), (*busy)->stream()),
           "cuMemsetD8Async");
      const auto start = std::chrono::steady_clock::now();
      Need(gpu.ScaleAndSum(ranks, memory.get(), kSize, 0.25, made_in, Soon()),
           name);
      const double took = std::chrono::duration<double, std::milli>(
                              std::chrono::steady_clock::now() - start)
                              .count();
      const bool beside =
          driver_.StreamQuery((*busy)->stream()) == CUDA_ERROR_NOT_READY &&
          !gate->ran_out();
      gate->Release();
      Need(driver_.StreamSynchronize((*busy)->stream()), "cuStreamSynchronize");
      Tell(fmt::format("{}, beside a busy stream, {}", name,
                       made_in == nullptr ? "made before" : "in a stream"),
           beside ? Difference(memory.Values(), expected) : 1e6, 1e-6, took);
      Tell(fmt::format("{}, the busy stream's own work", name),
           Difference(other.Values(), std::vector<float>(kSize, 0)), 0);
    }
    Need(driver_.StreamDestroy(stream), "cuStreamDestroy");
  }

  // Without a stream, sums wait for what the default stream would.
  void AfterTheDefaultStream(GpuGradients& gpu, Ranks& ranks) {
    constexpr std::size_t kSize = 300'001;
    const auto mine =
        Random<float>(kSize, 33 + static_cast<unsigned>(ranks.rank()));
    std::vector<float> expected = mine;
    Need(ScaleAndSum(ranks, std::span<float>(expected), 0.25, Soon()), "host");
    const OnDevice<float> memory(driver_, std::vector<float>(kSize, 9));
    const OnDevice<float> source(driver_, mine);
    CUstream stream = nullptr;
    Need(driver_.StreamCreate(&stream, CU_STREAM_DEFAULT), "cuStreamCreate");
    Need(driver_.LaunchHostFunc(
             stream,
             [](void*) {
               std::this_thread::sleep_for(std::chrono::milliseconds(50));
             },
             nullptr),
         "cuLaunchHostFunc");
    Need(driver_.MemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(memory.get()),
                                 reinterpret_cast<CUdeviceptr>(source.get()),
                                 kSize * sizeof(float), stream),
         "cuMemcpyDtoDAsync");
    Need(gpu.ScaleAndSum(ranks, memory.get(), kSize, 0.25, nullptr, Soon()),
         "after the default stream");
    Tell("after the default stream", Difference(memory.Values(), expected),
         1e-6);
    Need(driver_.StreamDestroy(stream), "cuStreamDestroy");
  }

  // Through the session, which has to recognise GPU memory itself.
  void ThroughSession(std::int64_t batch) {
    mpi::Options options;
    options.Set("batch", std::to_string(batch)).Set("network", "gradients");
    options.Set("coordinators", "").Set("plan_file", "");
    mpi::Session session(MPI_COMM_WORLD, options);
    constexpr std::size_t kSize = 3'000'001;
    const auto mine =
        Random<float>(kSize, 77 + static_cast<unsigned>(session.rank()));
    std::vector<float> expected = mine;
    session.AllReduce(expected.data(), kSize);
    const OnDevice<float> plain(driver_, mine);
    session.AllReduce(plain.get(), kSize);
    const OnDevice<float> streamed(driver_, mine);
    session.AllReduceDevice(streamed.get(), kSize, nullptr);
    // NCCL rounds otherwise than sums in host memory.
    const double tolerance =
        session.sum_method().starts_with("NCCL") ? 1e-6 : 0;
    std::vector<float> host = mine;
    session.AllReduceDevice(host.data(), kSize, nullptr);
    const std::string what = fmt::format("session, batch {}: ", batch);
    Tell(what + "a GPU's memory", Difference(plain.Values(), expected),
         tolerance);
    Tell(what + "in a stream", Difference(streamed.Values(), expected),
         tolerance);
    Tell(what + "the host's", Difference(host, expected), 0);
    session.Finalize();
  }

  bool failed() const { return failed_; }

 private:
  const DriverApi& driver_;
  Ranks& ranks_;
  bool failed_ = false;
};

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto ranks = Ranks::Duplicate(MPI_COMM_WORLD, Soon()).value();
  const auto apart = Ranks::Duplicate(MPI_COMM_WORLD, Soon()).value();
  apart->ForgoWindow();
  const auto libraries = cudnn::LoadedLibraries();
  if (!libraries) {
    std::printf("%s\n", libraries.error().message.c_str());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const DriverApi& driver = (*libraries)->driver;
  Need(driver.Init(0), "cuInit");
  int gpus = 0;
  Need(driver.DeviceGetCount(&gpus), "cuDeviceGetCount");
  CUdevice device = 0;
  Need(driver.DeviceGet(&device, ranks->rank() % gpus), "cuDeviceGet");
  CUcontext context = nullptr;
  Need(driver.DevicePrimaryCtxRetain(&context, device),
       "cuDevicePrimaryCtxRetain");
  Need(driver.CtxPushCurrent(context), "cuCtxPushCurrent");
  Checks checks(driver, *ranks);
  {
    auto staged = GpuGradients::With(driver, nullptr);
    auto shared = GpuGradients::With(driver, nullptr);
    std::unique_ptr<GpuGradients> nccl;
    if (ranks->size() > 1 && ranks->size() <= gpus) {
      const Result<const NcclApi*> loaded = LoadedNccl();
      Need(loaded, "NCCL");
      nccl = GpuGradients::With(driver, *loaded);
    }
    constexpr std::size_t kPiece = kPieceBytes / sizeof(float);
    constexpr std::size_t kShared = kSharedPieceBytes / sizeof(float);
    // ResNet-18's, and more than four pieces.
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{3}, std::size_t{1023}, kShared - 1,
          kShared, kShared + 1, kPiece - 1, kPiece, kPiece + 1,
          std::size_t{11'689'513}}) {
      // Uneven weights; and a rank that has weight 0 and holds NaN.
      const int rank = ranks->rank();
      for (const double scale :
           {(rank + 1) / 7.0, rank == 0 && ranks->size() > 1 ? 0.0 : 0.75}) {
        const auto seed = static_cast<unsigned>(size);
        const auto both = [&](const char* name, SumMethod method,
                              GpuGradients& gpu, Ranks& on) {
          checks.OnPath<float>(name, method, gpu, on, scale, size, seed);
          if (size < 2) return;
          checks.OnPath<double>(name, method, gpu, on, scale, size / 2, seed);
        };
        both("shared", SumMethod::kSharedMemory, *shared, *ranks);
        both("staged", SumMethod::kMpi, *staged, *apart);
        if (nccl) both("NCCL", SumMethod::kNccl, *nccl, *ranks);
      }
    }
    checks.Tell("what the ranks share is pinned", shared->pins_window() ? 0 : 1,
                0);
    checks.BesideOtherStreams(context, *shared, *ranks, "shared");
    checks.BesideOtherStreams(context, *staged, *apart, "staged");
    if (nccl) checks.BesideOtherStreams(context, *nccl, *ranks, "NCCL");
    checks.AfterTheDefaultStream(*shared, *ranks);
  }
  checks.ThroughSession(7);
  checks.ThroughSession(1);  // all but one rank have no images
  apart->Close();
  ranks->Close();
  MPI_Finalize();
  return checks.failed() ? 1 : 0;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
