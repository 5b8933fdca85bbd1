#include "device/onednn/onednn_device.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/service/host.h"
#include "device/host_memory.h"
#include "device/onednn/convolution.h"
#include "device/onednn/host.h"
#include "device/onednn/implementations.h"
#include "device/onednn/runtime.h"

namespace ucudnn {
namespace onednn {
namespace {

constexpr int kMaxThreads = 4096;

std::string_view IsaName(dnnl::cpu_isa isa) {
  using Isa = dnnl::cpu_isa;
  constexpr std::pair<Isa, std::string_view> kNames[] = {
      {Isa::sse41, "sse41"},
      {Isa::avx, "avx"},
      {Isa::avx2, "avx2"},
      {Isa::avx2_vnni, "avx2_vnni"},
      {Isa::avx512_mic, "avx512_mic"},
      {Isa::avx512_mic_4ops, "avx512_mic_4ops"},
      {Isa::avx512_core, "avx512_core"},
      {Isa::avx512_core_vnni, "avx512_core_vnni"},
      {Isa::avx512_core_bf16, "avx512_core_bf16"},
      {Isa::avx512_core_amx, "avx512_core_amx"},
  };
  const auto* known =
      std::ranges::find(kNames, isa, &std::pair<Isa, std::string_view>::first);
  return known == std::end(kNames) ? "generic" : known->second;
}

bool HasBf16() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 ||
         isa == dnnl::cpu_isa::avx512_core_amx;
}

class OneDnnDevice : public Device {
 public:
  // Throws dnnl::error.
  explicit OneDnnDevice(const OneDnnOptions& options)
      : OneDnnDevice(options, dnnl::engine(dnnl::engine::kind::cpu, 0)) {}

  const DeviceInfo& info() const override { return info_; }
  Bytes cache() const override { return cache_; }

  Result<std::vector<Candidate>> ListAlgorithms(
      const ConvProblem& folded, BatchSize folded_batch) override {
    const ConvWork work = Unfold(folded, folded_batch);
    const ConvProblem& problem = work.problem;
    const BatchSize batch = work.batch;
    UCUDNN_RETURN_IF_ERROR(CheckSupported(problem, batch));
    return Translated([&]() -> Result<std::vector<Candidate>> {
      const Threads::Scope scope(runtime_.threads);
      std::vector<Candidate> candidates;
      VisitImplementations(
          runtime_.engine, problem, batch, [&](const Implementation& i) {
            candidates.push_back({Algorithm{i.name, "", Computes(problem)},
                                  Workspace(problem, batch, i),
                                  IsReference(i.name)});
            return true;
          });
      if (candidates.empty()) {
        return Fail(Code::kUnimplemented,
                    "oneDNN has no implementation of {} for batch {}",
                    ToString(problem), batch.count());
      }
      return candidates;
    });
  }

  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& folded, BatchSize folded_batch,
      const Algorithm& algorithm) override {
    const ConvWork work = Unfold(folded, folded_batch);
    const ConvProblem& problem = work.problem;
    const BatchSize batch = work.batch;
    UCUDNN_RETURN_IF_ERROR(CheckSupported(problem, batch));
    return Translated([&]() -> Result<std::unique_ptr<Convolution>> {
      const Threads::Scope scope(runtime_.threads);
      std::optional<Implementation> found;
      if (algorithm.math.empty() && algorithm.precision == Computes(problem)) {
        VisitImplementations(runtime_.engine, problem, batch,
                             [&](const Implementation& i) {
                               if (i.name == algorithm.name) found = i;
                               return !found;
                             });
      }
      if (!found) {
        return Fail(Code::kNotFound,
                    "{} has no algorithm '{}' (math '{}', {}) for {}, batch {}",
                    info_.id, algorithm.name, algorithm.math,
                    Name(algorithm.precision), ToString(problem),
                    batch.count());
      }
      if (IsSliced(problem, *found)) {
        return MakeSlicedFilterGradient(runtime_, problem, batch);
      }
      return MakeConvolution(runtime_, problem, batch, *found);
    });
  }

  Result<DeviceBuffer> Allocate(Bytes size) override {
    return AllocateHostMemory(size);
  }

  Status Upload(void* device, const void* host, Bytes size) override {
    return Copy(device, host, size);
  }

  Status Download(void* host, const void* device, Bytes size) override {
    return Copy(host, device, size);
  }

  Status Fill(void* device, unsigned char byte, Bytes size) override {
    if (size > Bytes()) {
      std::memset(device, byte, static_cast<std::size_t>(size.count()));
    }
    return {};
  }

  Status Scale(float* device, std::int64_t count, float factor) override {
    if (count <= 0) return {};
    return Translated([&]() -> Status {
      const Threads::Scope scope(runtime_.threads);
      const dnnl::memory::desc form({count}, dnnl::memory::data_type::f32,
                                    dnnl::memory::format_tag::a);
      const dnnl::eltwise_forward::primitive_desc linear(
          {dnnl::prop_kind::forward_inference, dnnl::algorithm::eltwise_linear,
           form, factor, 0.0F},
          runtime_.engine);
      dnnl::memory values(form, runtime_.engine, device);
      dnnl::eltwise_forward(linear).execute(
          runtime_.stream, {{DNNL_ARG_SRC, values}, {DNNL_ARG_DST, values}});
      return {};
    });
  }

  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    const auto start = std::chrono::steady_clock::now();
    UCUDNN_RETURN_IF_ERROR(work());
    const auto end = std::chrono::steady_clock::now();
    // At least the clock's resolution: no work takes zero time.
    return std::max(std::chrono::duration_cast<Nanoseconds>(end - start),
                    Nanoseconds(1));
  }

  Status Synchronize() override { return {}; }

  const Runtime& runtime() const { return runtime_; }

 private:
  OneDnnDevice(const OneDnnOptions& options, const dnnl::engine& engine)
      : runtime_{engine, dnnl::stream(engine),
                 Threads(options.threads, options.cores)} {
    const dnnl_version_t* const version = dnnl_version();
    info_.id = fmt::format("cpu-{}-{}",
                           options.name.empty() ? HostName() : options.name,
                           options.index);
    info_.kind.model = fmt::format("{} {}", CpuModel(),
                                   IsaName(dnnl::get_effective_cpu_isa()));
    info_.kind.units = options.threads;
    info_.kind.memory = TotalHostMemory() / (1_GiB).count() * (1_GiB).count();
    info_.kind.library =
        fmt::format("onednn-{}.{}", version->major, version->minor);
    info_.driver = fmt::format("oneDNN {}.{}.{} (OpenMP), {}", version->major,
                               version->minor, version->patch, Kernel());
  }

  static Status Copy(void* to, const void* from, Bytes size) {
    if (size > Bytes()) {
      std::memcpy(to, from, static_cast<std::size_t>(size.count()));
    }
    return {};
  }

  // The precision in which the algorithms for a problem compute.
  static Precision Computes(const ConvProblem& problem) {
    return problem.precision == Precision::kTf32 ? Precision::kFp32
                                                 : problem.precision;
  }

  static bool IsSliced(const ConvProblem& problem, const Implementation& i) {
    return problem.op == ConvOp::kBackwardFilter && IsReference(i.name);
  }

  static Bytes Workspace(const ConvProblem& problem, BatchSize batch,
                         const Implementation& i) {
    return IsSliced(problem, i) ? Bytes() : WorkspaceOf(problem, batch, i);
  }

  Status CheckSupported(const ConvProblem& problem, BatchSize batch) const {
    UCUDNN_RETURN_IF_ERROR(Validate(problem.geometry));
    if (batch < BatchSize(1) || batch > kMaxBatchSize) {
      return Fail(Code::kInvalidArgument,
                  "a batch of {} images; 1 to {} is accepted", batch.count(),
                  kMaxBatchSize.count());
    }
    const Precision p = problem.precision;
    if (p == Precision::kFp32 || p == Precision::kTf32 ||
        (p == Precision::kBf16 && HasBf16())) {
      return {};
    }
    return Fail(Code::kUnimplemented, "{} does not compute in {}, only in {}",
                info_.kind.model, Name(p),
                HasBf16() ? "FP32, TF32 (as FP32) and BF16"
                          : "FP32 and TF32 (as FP32)");
  }

  Runtime runtime_;
  DeviceInfo info_;
  const Bytes cache_ = LastLevelCache();
};

}  // namespace

const Runtime* RuntimeOf(const Device& device) {
  const auto* ours = dynamic_cast<const OneDnnDevice*>(&device);
  return ours == nullptr ? nullptr : &ours->runtime();
}

}  // namespace onednn

Result<std::unique_ptr<Device>> OpenOneDnnDevice(const OneDnnOptions& options) {
  OneDnnOptions chosen = options;
  const std::vector<int> available = AvailableCores();
  for (const int core : chosen.cores) {
    if (!std::binary_search(available.begin(), available.end(), core)) {
      return Fail(Code::kInvalidArgument,
                  "core {} is not available to this process", core);
    }
  }
  const std::size_t cores =
      chosen.cores.empty() ? available.size() : chosen.cores.size();
  if (chosen.threads == 0) {
    chosen.threads = std::min(static_cast<int>(cores), UsableCores());
  }
  if (chosen.threads < 1 || chosen.threads > onednn::kMaxThreads) {
    return Fail(Code::kInvalidArgument, "{} threads; 1 to {} is accepted",
                chosen.threads, onednn::kMaxThreads);
  }
  if (!chosen.cores.empty() &&
      chosen.cores.size() < std::size_t(chosen.threads)) {
    return Fail(Code::kInvalidArgument, "{} threads are more than the {} cores",
                chosen.threads, chosen.cores.size());
  }
  if (chosen.index < 0) {
    return Fail(Code::kInvalidArgument, "the index {} is negative",
                chosen.index);
  }
  return onednn::Translated([&]() -> Result<std::unique_ptr<Device>> {
    return std::make_unique<onednn::OneDnnDevice>(chosen);
  });
}

std::vector<int> AvailableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  // The call fails if there are more cores than the set can hold: then use all.
  const bool known = sched_getaffinity(0, sizeof(set), &set) == 0;
  const int count = known
                        ? CPU_SETSIZE
                        : static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 0; i < count; ++i) {
    if (!known || CPU_ISSET(std::size_t(i), &set)) cores.push_back(i);
  }
  return cores;
}

}  // namespace ucudnn
