#include "device/measure/device_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "device/measure/measure.h"

namespace ucudnn {
namespace {

using Clock = std::chrono::steady_clock;

double FourDigits(double value) {
  if (!(value > 0)) return value;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 3);
  return std::round(value / unit) * unit;
}

// Per microsecond.
double Rate(double quantity, Nanoseconds time) {
  const auto ns = static_cast<double>(std::max(time, Nanoseconds(1)).count());
  return FourDigits(quantity / ns * 1e3);
}

double Count(Bytes bytes) { return static_cast<double>(bytes.count()); }

class ModelMeasurement {
 public:
  ModelMeasurement(Device& device, const DeviceModelOptions& options,
                   const std::stop_token& stop)
      : device_(device), options_(options), stop_(stop) {}

  Result<DeviceModel> Measure() {
    model_.name = ToString(device_.info().kind);
    model_.memory = device_.info().kind.memory;
    UCUDNN_RETURN_IF_ERROR(AllocateValues());
    UCUDNN_RETURN_IF_ERROR(MeasureMemory());
    UCUDNN_RETURN_IF_ERROR(MeasureLink());
    values_.Reset();
    UCUDNN_RETURN_IF_ERROR(MeasureArithmetic());
    UCUDNN_RETURN_IF_ERROR(Validate(model_));
    return model_;
  }

 private:
  using Measured = Result<Nanoseconds>;

  Status CheckStop() const {
    if (!stop_.stop_requested()) return {};
    return Fail(Code::kCancelled, "stopped while the device was measured");
  }

  // The fastest of the repeats, after one run to warm up: whatever else the
  // machine does only adds to the others.
  Measured Fastest(int repeats,
                   const std::function<Measured()>& measure) const {
    UCUDNN_RETURN_IF_ERROR(measure());
    Nanoseconds fastest = Nanoseconds::max();
    for (int i = 0; i < repeats; ++i) {
      UCUDNN_RETURN_IF_ERROR(CheckStop());
      UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, measure());
      fastest = std::min(fastest, time);
    }
    return fastest;
  }

  // Several times the cache, or less if the device is small or others use it.
  Status AllocateValues() {
    const Bytes memory = device_.info().kind.memory;
    const Bytes most = memory > Bytes() ? memory / 32 : 64_MiB;
    Bytes size =
        std::min({std::max(device_.cache() * 4, 64_MiB), 512_MiB, most});
    while (true) {
      auto values = device_.Allocate(size);
      if (values) {
        values_ = *std::move(values);
        return device_.Fill(values_.data(), 0, size);
      }
      if (values.error().code != Code::kResourceExhausted || size < 2_MiB) {
        return tl::unexpected<Error>(std::move(values).error());
      }
      size = size / 2;
    }
  }

  // The time of one Scale, of `runs` enqueued one after the other.
  Measured TimeScale(std::int64_t count, int runs, int repeats) const {
    return Fastest(repeats, [&]() -> Measured {
      UCUDNN_ASSIGN_OR_RETURN(
          const Device::EnqueuedTime time,
          device_.TimeEnqueued([&]() -> Status {
            for (int i = 0; i < runs; ++i) {
              UCUDNN_RETURN_IF_ERROR(device_.Scale(
                  static_cast<float*>(values_.data()), count, 1.0F));
            }
            return {};
          }));
      // Short runs follow each other no faster than the host enqueues them.
      return std::max(time.device, time.host) / runs;
    });
  }

  Status MeasureMemory() {
    constexpr std::int64_t kFew = 1024;
    constexpr int kRuns = 16;
    constexpr int kGroups = 4;  // they are short
    UCUDNN_ASSIGN_OR_RETURN(model_.launch,
                            TimeScale(kFew, kRuns, kGroups * options_.repeats));
    const std::int64_t count =
        values_.size().count() / static_cast<std::int64_t>(sizeof(float));
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time,
                            TimeScale(count, 1, options_.repeats));
    model_.memory_rate = Rate(2.0 * Count(values_.size()),
                              time - std::min(model_.launch, time / 2));
    return {};
  }

  // The host's time from enqueueing to the end of copies of `size` in each of
  // these directions.
  struct Link {
    std::unique_ptr<CopyQueue> up;
    std::unique_ptr<CopyQueue> down;
    DeviceBuffer source;
    DeviceBuffer target;
  };
  Measured TimeCopies(Link& link, Bytes size, int count, bool up,
                      bool down) const {
    char* const device = static_cast<char*>(values_.data());
    return Fastest(options_.repeats, [&]() -> Measured {
      const auto begun = Clock::now();
      for (int i = 0; i < count; ++i) {
        if (up) {
          UCUDNN_RETURN_IF_ERROR(
              link.up->Upload(device, link.source.data(), size));
        }
        if (down) {
          UCUDNN_RETURN_IF_ERROR(link.down->Download(
              link.target.data(), device + values_.size().count() / 2, size));
        }
      }
      UCUDNN_RETURN_IF_ERROR(link.up->Synchronize());
      UCUDNN_RETURN_IF_ERROR(link.down->Synchronize());
      return std::chrono::duration_cast<Nanoseconds>(Clock::now() - begun);
    });
  }

  Status MeasureLink() {
    const Bytes size = std::min(options_.copy, values_.size() / 2);
    Link link;
    UCUDNN_ASSIGN_OR_RETURN(link.up, device_.MakeCopyQueue());
    UCUDNN_ASSIGN_OR_RETURN(link.down, device_.MakeCopyQueue());
    for (DeviceBuffer* buffer : {&link.source, &link.target}) {
      UCUDNN_ASSIGN_OR_RETURN(*buffer, device_.AllocateHost(size));
      std::memset(buffer->data(), 0, static_cast<std::size_t>(size.count()));
    }
    constexpr Bytes kSmall(4096);
    constexpr int kCopies = 32;
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds small,
                            TimeCopies(link, kSmall, kCopies, true, false));
    model_.transfer_latency = small / kCopies;
    // What starting and waiting takes does not belong to the rate.
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds empty,
                            TimeCopies(link, kSmall, 1, true, false));
    const auto moving = [&](Nanoseconds time) {
      return time - std::min(empty, time / 2);
    };
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds up,
                            TimeCopies(link, size, 1, true, false));
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds down,
                            TimeCopies(link, size, 1, false, true));
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds both,
                            TimeCopies(link, size, 1, true, true));
    model_.h2d_rate = Rate(Count(size), moving(up));
    model_.d2h_rate = Rate(Count(size), moving(down));
    model_.both_ways_rate = Rate(Count(size), moving(both));
    // At once, both take as long as the slower one; one after the other, as
    // long as their sum. The model knows no third case: the nearer one counts.
    const Nanoseconds slower = std::max(moving(up), moving(down));
    model_.duplex =
        moving(both) - slower < moving(up) + moving(down) - moving(both);
    return {};
  }

  // A convolution that reaches the device's arithmetic rate.
  struct Reference {
    ConvProblem problem;
    BatchSize batch;
    Candidate candidate;
    double operations = 0;
    Nanoseconds time{0};  // the fastest run

    double rate() const { return Rate(operations, time); }
  };

  Status MeasureArithmetic() {
    UCUDNN_ASSIGN_OR_RETURN(const std::optional<Reference> fp32,
                            FindReference(Precision::kFp32, Layout::kNchw));
    if (!fp32) {
      return Fail(Code::kUnimplemented, "{} computes no convolution in FP32",
                  device_.info().id);
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::optional<Reference> tf32,
                            FindReference(Precision::kTf32, Layout::kNhwc));
    UCUDNN_ASSIGN_OR_RETURN(
        std::optional<Reference> half,
        FindReference(Precision::kPseudoHalf, Layout::kNhwc));
    if (!half) {
      UCUDNN_ASSIGN_OR_RETURN(half,
                              FindReference(Precision::kBf16, Layout::kNhwc));
    }
    model_.arithmetic = {.fp32 = fp32->rate(),
                         .tf32 = tf32.value_or(*fp32).rate(),
                         .half = half.value_or(*fp32).rate()};
    if (options_.load <= Nanoseconds(0)) return {};
    // Afterwards, since the device is not at rest any more then.
    UCUDNN_ASSIGN_OR_RETURN(model_.loaded.fp32, RateUnderLoad(*fp32));
    model_.loaded.tf32 = model_.loaded.half = model_.loaded.fp32;
    if (tf32) {
      UCUDNN_ASSIGN_OR_RETURN(model_.loaded.tf32, RateUnderLoad(*tf32));
    }
    if (half) {
      UCUDNN_ASSIGN_OR_RETURN(model_.loaded.half, RateUnderLoad(*half));
    }
    return {};
  }

  // Absent if the device does not compute in this precision.
  Result<std::optional<Reference>> FindReference(Precision precision,
                                                 Layout layout) {
    Reference reference;
    ConvProblem& problem = reference.problem;
    problem.precision = precision;
    problem.layout = layout;
    problem.geometry.channels = options_.channels;
    problem.geometry.filters = options_.channels;
    problem.geometry.input = {1, 7, 7};
    // So long that starting it does not count, as far as one image tells.
    constexpr Nanoseconds kLong = std::chrono::milliseconds(10);
    reference.batch = BatchSize(1);
    UCUDNN_ASSIGN_OR_RETURN(const bool runs, SetFastest(1, &reference));
    if (!runs) return std::nullopt;
    constexpr int kAlgorithms = 2;
    // Fewer images if others use the memory.
    for (std::int64_t images = std::clamp<std::int64_t>(
             kLong / std::max(reference.time, Nanoseconds(1)), 1,
             options_.max_batch.count());
         images > 0; images /= 2) {
      reference.batch = BatchSize(images);
      UCUDNN_ASSIGN_OR_RETURN(const bool fits,
                              SetFastest(kAlgorithms, &reference));
      if (!fits) continue;
      reference.operations =
          2.0 * static_cast<double>(problem.geometry.multiply_adds()) *
          static_cast<double>(images);
      return reference;
    }
    return std::nullopt;
  }

  // Sets candidate and time to those of the fastest of the first `algorithms`
  // that the device would choose; false if none runs.
  Result<bool> SetFastest(int algorithms, Reference* reference) {
    UCUDNN_RETURN_IF_ERROR(CheckStop());
    const ConvProblem& problem = reference->problem;
    const auto suggested = device_.SuggestAlgorithms(problem, reference->batch);
    if (!suggested && suggested.error().code == Code::kUnimplemented) {
      return false;
    }
    if (!suggested) return tl::unexpected<Error>(suggested.error());
    MeasureOptions options;
    options.min_repeats = std::min(options_.repeats, 3);
    options.max_repeats = options_.repeats;
    options.max_workspace = 256_MiB;
    options.cold = 0;
    int tried = 0;
    for (const Candidate& candidate : *suggested) {
      if (tried == algorithms) break;
      // FP32's rate is measured already.
      if (problem.precision == Precision::kTf32 &&
          candidate.algorithm.precision == Precision::kFp32) {
        continue;
      }
      const auto point = bench_.MeasureAlgorithm(problem, reference->batch,
                                                 candidate, options, {}, stop_);
      if (!point && (point.error().code == Code::kDataLoss ||
                     point.error().code == Code::kCancelled)) {
        return tl::unexpected<Error>(point.error());
      }
      if (!point) continue;
      if (tried == 0 || point->min < reference->time) {
        reference->candidate = candidate;
        reference->time = point->min;
      }
      ++tried;
    }
    return tried > 0;
  }

  Result<double> RateUnderLoad(const Reference& reference) {
    UCUDNN_ASSIGN_OR_RETURN(
        const Nanoseconds time,
        bench_.TimeUnderLoad(reference.problem, reference.batch,
                             reference.candidate, options_.load, stop_));
    return Rate(reference.operations, time);
  }

  Device& device_;
  const DeviceModelOptions& options_;
  const std::stop_token& stop_;
  DeviceModel model_;
  DeviceBuffer values_;
  MeasureBench bench_{device_};
};

}  // namespace

Result<DeviceModel> MeasureDeviceModel(Device& device,
                                       const DeviceModelOptions& options,
                                       const std::stop_token& stop) {
  if (options.repeats < 1 || options.channels < 1 ||
      options.copy < Bytes(4096) || options.max_batch < BatchSize(1) ||
      options.load < Nanoseconds(0)) {
    return Fail(Code::kInvalidArgument,
                "{} repeats, {} channels, copies of {}, up to {} images and a "
                "load of {}; at least 1, 1, 4 KiB, 1 and 0 are accepted",
                options.repeats, options.channels, HumanBytes(options.copy),
                options.max_batch.count(), HumanTime(options.load));
  }
  return ModelMeasurement(device, options, stop).Measure();
}

}  // namespace ucudnn
