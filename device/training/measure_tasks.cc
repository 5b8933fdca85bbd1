#include "device/training/measure_tasks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/median.h"
#include "base/text.h"
#include "device/elements.h"
#include "device/measure/measure.h"
#include "device/training/rank_exchange.h"
#include "device/training/task_runner.h"

namespace ucudnn {
namespace {

constexpr Bytes kAlignment{256};
constexpr Nanoseconds kGroup = std::chrono::milliseconds(1);
constexpr int kMostOfGroup = 10;
// Bias gradients cycle over operands of this many times the device's cache.
constexpr std::int64_t kCold = 2;
// Any rate but 0, with which an update may read less.
constexpr float kRate = 0.01F;
constexpr float kMomentum = 0.9F;

// Of one rank, whose sums are everyone's.
class NoOthers final : public RankExchange {
 public:
  bool stream_ordered() const override { return true; }
  Status SumStatistics(std::span<double> /*sums*/) override { return {}; }
  Status SumGradients(std::span<const ReadyBucket> /*buckets*/) override {
    return {};
  }
};

BatchSize LargestOf(std::span<const BatchSize> batches) {
  BatchSize largest(1);
  for (const BatchSize batch : batches) largest = std::max(largest, batch);
  return largest;
}

class TaskMeasurement {
 public:
  TaskMeasurement(Device& device, Operators& operators,
                  std::span<const TaskOperation> operations,
                  const TaskMeasureOptions& options,
                  const std::stop_token& stop, TrainingGraph* training)
      : device_(device),
        operators_(operators),
        operations_(operations),
        options_(options),
        stop_(stop),
        training_(training),
        largest_(LargestOf(options.batches)),
        bench_(std::in_place, device),
        runner_(device, operators, *training, operations) {
    for (const TaskOperation& operation : operations) {
      if (operation.what == TaskOperator::kRelu &&
          operation.kind == TaskKind::kForward) {
        rectified_.insert(*operation.y);
      }
    }
  }

  Status Measure() {
    for (const BatchSize batch : options_.batches) {
      for (std::size_t task = 0; task < operations_.size(); ++task) {
        if (!IsConvolution(task) || !Wanted(task) || Elsewhere(task)) continue;
        UCUDNN_RETURN_IF_ERROR(MeasureConvolution(task, batch));
      }
    }
    // The bench keeps its buffers, and frees them here.
    bench_.reset();
    UCUDNN_RETURN_IF_ERROR(AllocateScratch());
    for (const BatchSize batch : options_.batches) {
      for (std::size_t task = 0; task < operations_.size(); ++task) {
        if (!Wanted(task)) continue;
        if (IsConvolution(task)) {
          UCUDNN_RETURN_IF_ERROR(MeasureExtras(task, batch));
        } else {
          UCUDNN_RETURN_IF_ERROR(MeasureOther(task, batch));
        }
      }
    }
    return {};
  }

 private:
  bool IsConvolution(std::size_t task) const {
    return operations_[task].what == TaskOperator::kConvolution;
  }
  bool Wanted(std::size_t task) const {
    return options_.only.empty() || options_.only.contains(task);
  }
  bool Elsewhere(std::size_t task) const {
    return !options_.measured_elsewhere.empty() &&
           options_.measured_elsewhere[task];
  }

  Status CheckStop() const {
    if (!stop_.stop_requested()) return {};
    return Fail(Code::kCancelled, "stopped while the tasks were measured");
  }

  Status MeasureConvolution(std::size_t task, BatchSize batch) {
    UCUDNN_RETURN_IF_ERROR(CheckStop());
    const ConvProblem& problem = *operations_[task].conv;
    // Filter gradients of less than the mini-batch add to those before them.
    const bool adds =
        operations_[task].old ||
        (problem.op == ConvOp::kBackwardFilter && batch < training_->batch);
    auto known = points_.find({problem, batch, adds});
    if (known == points_.end()) {
      MeasureOptions options;
      options.min_repeats = std::min(options_.repeats, 2);
      options.max_repeats = options_.repeats;
      options.group_time = kGroup;
      options.max_workspace = options_.max_workspace;
      options.hopeless_factor = 5;
      options.beta = adds ? 1.0F : 0.0F;
      auto points = bench_->Measure(problem, batch, options, stop_, {});
      if (!points) {
        return Within(
            fmt::format("task '{}'", Excerpt(training_->tasks[task].name, 200)),
            std::move(points).error());
      }
      UCUDNN_RETURN_IF_ERROR(bench_->errors().AddTo(device_, problem, *points));
      LeaveOutInexact(problem.precision, kDefaultMaxError, &*points);
      known =
          points_.emplace(std::tuple(problem, batch, adds), *std::move(points))
              .first;
    }
    std::vector<MeasuredPoint>& measured = training_->tasks[task].work.measured;
    measured.insert(measured.end(), known->second.begin(), known->second.end());
    return {};
  }

  Bytes SizeOf(std::size_t task, BatchSize batch) const {
    Bytes sum;
    for (const auto* blocks :
         {&training_->tasks[task].reads, &training_->tasks[task].writes}) {
      for (const std::size_t block : *blocks) {
        sum += RoundUp(training_->blocks[block].SizeAt(batch), kAlignment);
      }
    }
    return sum;
  }

  Status AllocateScratch() {
    Bytes size(256);
    std::int64_t labels = 1;
    for (std::size_t task = 0; task < operations_.size(); ++task) {
      const TaskOperation& operation = operations_[task];
      if (!IsConvolution(task) || operation.biases > 0 || operation.old) {
        size = std::max(size, SizeOf(task, largest_));
      }
      if (operation.biases > 0) {
        size = std::max(size, ColdBytes() + SizeOf(task, largest_));
      }
      if (operation.labels) {
        labels = training_->blocks[*operation.labels].bytes_per_image.count();
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(scratch_, device_.Allocate(size));
    UCUDNN_ASSIGN_OR_RETURN(probabilities_,
                            device_.Allocate(Bytes(largest_.count() * labels)));
    if (options_.exchanged_statistics) {
      UCUDNN_ASSIGN_OR_RETURN(
          shared_,
          SharedStatistics::Create(device_, operations_, largest_, no_others_));
    }
    return UploadRepeated(device_, scratch_, pattern_);
  }

  // At most 1/32 of the device's memory.
  Bytes ColdBytes() const {
    return std::min(device_.cache() * kCold, device_.info().kind.memory / 32);
  }

  // The addresses of the task's blocks, one after the other.
  Result<std::vector<float*>> Place(std::size_t task, BatchSize batch) {
    std::vector<float*> places(training_->blocks.size());
    auto* next = static_cast<char*>(scratch_.data());
    for (const auto* blocks :
         {&training_->tasks[task].reads, &training_->tasks[task].writes}) {
      for (const std::size_t block : *blocks) {
        if (places[block] != nullptr) continue;
        const Bytes size = training_->blocks[block].SizeAt(batch);
        places[block] = reinterpret_cast<float*>(next);
        if (operations_[task].labels == block) {
          UCUDNN_RETURN_IF_ERROR(device_.Fill(next, 0, size));
        }
        next += RoundUp(size, kAlignment).count();
      }
    }
    return places;
  }

  // What repeats of what `work` enqueues take.
  Result<MeasuredPoint> Time(const std::function<Status()>& work) {
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds first, device_.Time(work));
    const auto runs = std::clamp<std::int64_t>(
        kGroup / std::max(first, Nanoseconds(1)), 1, kMostOfGroup);
    std::vector<Nanoseconds> times;
    for (int i = 0; i < options_.repeats; ++i) {
      UCUDNN_RETURN_IF_ERROR(CheckStop());
      UCUDNN_ASSIGN_OR_RETURN(const Device::EnqueuedTime time,
                              device_.TimeEnqueued([&]() -> Status {
                                for (std::int64_t n = 0; n < runs; ++n) {
                                  UCUDNN_RETURN_IF_ERROR(work());
                                }
                                return {};
                              }));
      times.push_back(time.device / runs);
    }
    MeasuredPoint point;
    point.repeats = options_.repeats;
    point.min = *std::min_element(times.begin(), times.end());
    const MedianAndSpread of_times = MedianAndSpreadOf(std::move(times));
    point.time = of_times.median;
    point.spread = of_times.spread;
    return point;
  }

  // Adds the time of what a task runs besides its convolution to that of every
  // algorithm; the only measurement of one that is measured elsewhere.
  Status MeasureExtras(std::size_t task, BatchSize batch) {
    UCUDNN_RETURN_IF_ERROR(CheckStop());
    const TaskOperation& operation = operations_[task];
    MeasuredPoint extra;
    if (operation.old && *operation.old != *operation.dx) {
      UCUDNN_ASSIGN_OR_RETURN(extra, TimeOfCopy(task, batch));
    } else if (operation.biases > 0 && operation.kind == TaskKind::kForward) {
      UCUDNN_ASSIGN_OR_RETURN(extra, TimeOfBias(task, batch));
    } else if (operation.biases > 0 &&
               operation.kind == TaskKind::kBackwardFilter) {
      UCUDNN_ASSIGN_OR_RETURN(extra, TimeOfBiasGradient(task));
      extra.time = extra.time * batch.count() / largest_.count();
    } else {
      return {};
    }
    std::vector<MeasuredPoint>& measured = training_->tasks[task].work.measured;
    for (MeasuredPoint& point : measured) {
      if (point.batch == batch) point.time += extra.time;
    }
    if (!Elsewhere(task)) return {};
    extra.batch = batch;
    measured.push_back(std::move(extra));
    return {};
  }

  // Of the gradient that the convolution adds to.
  Result<MeasuredPoint> TimeOfCopy(std::size_t task, BatchSize batch) {
    const TaskOperation& operation = operations_[task];
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<float*> places,
                            Place(task, batch));
    const std::int64_t elements =
        training_->blocks[*operation.dx].bytes_per_image.count() /
        std::int64_t{sizeof(float)};
    return Remember(fmt::format("copy {} {}", batch.count(), elements), [&] {
      return Time([&] {
        return operators_.Blend(batch, elements, 1.0F, places[*operation.old],
                                0.0F, places[*operation.dx]);
      });
    });
  }

  Result<MeasuredPoint> TimeOfBias(std::size_t task, BatchSize batch) {
    const TaskOperation& operation = operations_[task];
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<float*> places,
                            Place(task, batch));
    const std::string key =
        fmt::format("bias {} {} {}", batch.count(), operation.biases,
                    operation.output.pixels());
    return Remember(key, [&] {
      return Time([&] {
        return operators_.AddBias(batch, operation.output,
                                  places[*operation.w] + operation.filters,
                                  places[*operation.y]);
      });
    });
  }

  // Of the largest batch. It runs once, after all micro-batches, when the
  // device's cache no longer holds the first ones' errors. So runs cycle over
  // more of them than it holds.
  Result<MeasuredPoint> TimeOfBiasGradient(std::size_t task) {
    const TaskOperation& operation = operations_[task];
    const Bytes errors =
        RoundUp(training_->blocks[*operation.dy].SizeAt(largest_), kAlignment);
    const std::int64_t turns = std::max<std::int64_t>(
        1, RoundUp(ColdBytes(), errors).count() / errors.count());
    const auto at = [&](std::int64_t turn) {
      return reinterpret_cast<float*>(static_cast<char*>(scratch_.data()) +
                                      turn * errors.count());
    };
    std::int64_t run = 0;
    const auto work = [&] {
      return operators_.BiasBackward(largest_, operation.output,
                                     at(run++ % turns), 0, at(turns));
    };
    return Remember(fmt::format("bias gradient {} {}", operation.biases,
                                operation.output.pixels()),
                    [&] { return Time(work); });
  }

  Status MeasureOther(std::size_t task, BatchSize batch) {
    UCUDNN_RETURN_IF_ERROR(CheckStop());
    // Updates take the same time at any batch.
    std::vector<MeasuredPoint>& measured = training_->tasks[task].work.measured;
    if (IsUpdate(training_->tasks[task].kind) && !measured.empty()) return {};
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<float*> places,
                            Place(task, batch));
    RoundState state;
    state.batch = batch;
    state.rate = kRate;
    state.momentum = kMomentum;
    state.probabilities = static_cast<float*>(probabilities_.data());
    state.shared = shared_ ? &*shared_ : nullptr;
    const auto measure = [&]() -> Result<MeasuredPoint> {
      UCUDNN_RETURN_IF_ERROR(MatchOutput(task, batch, places));
      return Time([&] {
        return runner_.Run(task, places, {}, nullptr, Bytes(), state);
      });
    };
    UCUDNN_ASSIGN_OR_RETURN(MeasuredPoint point,
                            Remember(KeyOf(task, batch), measure));
    point.batch = batch;
    measured.push_back(std::move(point));
    return {};
  }

  // Makes the input of a pool's backward pass random again, a ReLU's output if
  // it is one, and the output that it reads that of its input: how long cuDNN
  // takes depends on where it finds the maxima. On what tasks measured before
  // leave behind it took 1.4 instead of 2.4 ms.
  Status MatchOutput(std::size_t task, BatchSize batch,
                     std::span<float* const> places) {
    const TaskOperation& operation = operations_[task];
    if (operation.what != TaskOperator::kPool ||
        operation.kind != TaskKind::kBackward || !operation.y ||
        operation.x.empty()) {
      return {};
    }
    float* const x = places[operation.x[0]];
    const DeviceBuffer input(x, training_->blocks[operation.x[0]].SizeAt(batch),
                             [](void*) {});
    UCUDNN_RETURN_IF_ERROR(UploadRepeated(device_, input, pattern_));
    if (rectified_.contains(operation.x[0])) {
      UCUDNN_RETURN_IF_ERROR(
          operators_.Relu(batch, operation.input.elements(), x, x));
    }
    return operators_.Pool(batch, operation.pooling, x, places[*operation.y]);
  }

  template <class Measure>
  Result<MeasuredPoint> Remember(const std::string& key,
                                 const Measure& measure) {
    const auto known = times_.find(key);
    if (known != times_.end()) return known->second;
    UCUDNN_ASSIGN_OR_RETURN(const MeasuredPoint point, measure());
    times_.emplace(key, point);
    return point;
  }

  // Equal for tasks that do the same work.
  std::string KeyOf(std::size_t task, BatchSize batch) const {
    const TaskOperation& o = operations_[task];
    const auto extent = [](const ImageExtent& e) {
      return fmt::format("{}x{}x{}x{}", e.channels, e.depth, e.height, e.width);
    };
    std::string key =
        fmt::format("{} {} {} {} {} {} {} {} {}", static_cast<int>(o.what),
                    static_cast<int>(o.kind), batch.count(), extent(o.input),
                    extent(o.output), o.trained, o.x.size(), o.old.has_value(),
                    o.old == o.dx);
    key += fmt::format(" {} {} {} {}", static_cast<int>(o.activation.kind),
                       o.response.size, o.planes, o.span);
    key += fmt::format(" {}", static_cast<int>(o.resizing.mode));
    for (const TensorPart& part : o.parts) {
      key += fmt::format(" {} {} {} {}", part.depth, part.height, part.width,
                         part.old.has_value());
    }
    for (const auto& factor : o.factors) {
      key += fmt::format(" {}", factor.has_value());
    }
    for (const Window& w : o.pooling.windows) {
      key += fmt::format(" {} {} {}", w.extent, w.stride, w.before);
    }
    return key + fmt::format(" {} {} {} {} {}", o.v.has_value(),
                             o.statistics.size(),
                             static_cast<int>(o.pooling.kind),
                             o.y && !o.x.empty() && o.x[0] == *o.y,
                             !o.x.empty() && rectified_.contains(o.x[0]));
  }

  Device& device_;
  Operators& operators_;
  const std::span<const TaskOperation> operations_;
  const TaskMeasureOptions& options_;
  const std::stop_token& stop_;
  TrainingGraph* const training_;
  const BatchSize largest_;
  std::set<std::size_t> rectified_;  // blocks that hold a ReLU's output
  std::optional<MeasureBench> bench_;
  TaskRunner runner_;
  std::map<std::tuple<ConvProblem, BatchSize, bool>, std::vector<MeasuredPoint>>
      points_;
  std::map<std::string, MeasuredPoint> times_;
  const std::string pattern_ = RandomElements(1 << 20, Precision::kFp32, 1);
  DeviceBuffer scratch_;
  DeviceBuffer probabilities_;
  NoOthers no_others_;
  std::optional<SharedStatistics> shared_;
};

}  // namespace

std::vector<BatchSize> MeasuredBatches(BatchSize batch) {
  constexpr std::int64_t kSmallest = 32;  // a part of the batch
  constexpr std::int64_t kMultiple = 64;
  std::vector<BatchSize> batches;
  for (std::int64_t size = batch.count(), part = 1; part <= kSmallest;
       part *= 2) {
    batches.push_back(BatchSize((size + part - 1) / part));
  }
  for (std::int64_t size = kMultiple; size < batch.count(); size += kMultiple) {
    if (batch.count() / size < 2) batches.push_back(BatchSize(size));
  }
  std::sort(batches.begin(), batches.end());
  batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
  return batches;
}

Status MeasureTasks(Device& device, Operators& operators,
                    std::span<const TaskOperation> operations,
                    const TaskMeasureOptions& options,
                    const std::stop_token& stop, TrainingGraph* training) {
  for (Task& task : training->tasks) task.work.measured.clear();
  return TaskMeasurement(device, operators, operations, options, stop, training)
      .Measure();
}

}  // namespace ucudnn
