#include "client/training/measure_tasks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "client/training/task_runner.h"
#include "device/elements.h"
#include "device/measure/measure.h"

namespace ucudnn {
namespace {

constexpr Bytes kAlignment{256};
constexpr Nanoseconds kGroup = std::chrono::milliseconds(1);
constexpr int kMostOfGroup = 10;

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
        bench_(std::in_place, device),
        runner_(device, operators, *training, operations) {}

  Status Measure() {
    for (const BatchSize batch : options_.batches) {
      for (std::size_t task = 0; task < operations_.size(); ++task) {
        if (operations_[task].what != TaskOperator::kConvolution) continue;
        UCUDNN_RETURN_IF_ERROR(MeasureConvolution(task, batch));
      }
    }
    // The bench keeps its buffers, and frees them here.
    bench_.reset();
    UCUDNN_RETURN_IF_ERROR(AllocateScratch());
    for (const BatchSize batch : options_.batches) {
      for (std::size_t task = 0; task < operations_.size(); ++task) {
        if (operations_[task].what == TaskOperator::kConvolution) {
          UCUDNN_RETURN_IF_ERROR(MeasureBias(task, batch));
        } else {
          UCUDNN_RETURN_IF_ERROR(MeasureOther(task, batch));
        }
      }
    }
    return {};
  }

 private:
  Status CheckStop() const {
    if (!stop_.stop_requested()) return {};
    return Fail(Code::kCancelled, "stopped while the tasks were measured");
  }

  Status MeasureConvolution(std::size_t task, BatchSize batch) {
    UCUDNN_RETURN_IF_ERROR(CheckStop());
    const ConvProblem& problem = *operations_[task].conv;
    auto known = points_.find({problem, batch});
    if (known == points_.end()) {
      MeasureOptions options;
      options.min_repeats = std::min(options_.repeats, 2);
      options.max_repeats = options_.repeats;
      options.group_time = kGroup;
      options.max_workspace = options_.max_workspace;
      options.hopeless_factor = 5;
      auto points = bench_->Measure(problem, batch, options, stop_, {});
      if (!points) {
        return Within(
            fmt::format("task '{}'", Excerpt(training_->tasks[task].name, 200)),
            std::move(points).error());
      }
      known =
          points_.emplace(std::pair(problem, batch), *std::move(points)).first;
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
    BatchSize largest(1);
    for (const BatchSize batch : options_.batches) {
      largest = std::max(largest, batch);
    }
    for (std::size_t task = 0; task < operations_.size(); ++task) {
      const TaskOperation& operation = operations_[task];
      if (operation.what != TaskOperator::kConvolution ||
          operation.biases > 0) {
        size = std::max(size, SizeOf(task, largest));
      }
      if (operation.labels) {
        labels = training_->blocks[*operation.labels].bytes_per_image.count();
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(scratch_, device_.Allocate(size));
    UCUDNN_ASSIGN_OR_RETURN(probabilities_,
                            device_.Allocate(Bytes(largest.count() * labels)));
    const std::string pattern = RandomElements(1 << 20, Precision::kFp32, 1);
    return UploadRepeated(device_, scratch_, pattern);
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

  // The median time of what `work` enqueues.
  Result<Nanoseconds> Time(const std::function<Status()>& work) {
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
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  // Adds the time of the bias to that of every algorithm.
  Status MeasureBias(std::size_t task, BatchSize batch) {
    const TaskOperation& operation = operations_[task];
    const bool forward = operation.kind == TaskKind::kForward;
    if (operation.biases == 0 ||
        (!forward && operation.kind != TaskKind::kBackwardFilter)) {
      return {};
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<float*> places,
                            Place(task, batch));
    const auto measure = [&] {
      return Time([&] {
        return forward ? operators_.AddBias(
                             batch, operation.output,
                             places[*operation.w] + operation.filters,
                             places[*operation.y])
                       : operators_.BiasBackward(
                             batch, operation.output, places[*operation.dy], 0,
                             places[*operation.dw] + operation.filters);
      });
    };
    UCUDNN_ASSIGN_OR_RETURN(
        const Nanoseconds time,
        Remember(fmt::format("bias {} {} {} {}", forward, batch.count(),
                             operation.biases, operation.output.pixels()),
                 measure));
    for (MeasuredPoint& point : training_->tasks[task].work.measured) {
      if (point.batch == batch) point.time += time;
    }
    return {};
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
    state.probabilities = static_cast<float*>(probabilities_.data());
    const auto measure = [&]() -> Result<Nanoseconds> {
      UCUDNN_RETURN_IF_ERROR(MatchOutput(task, batch, places));
      return Time([&] {
        return runner_.Run(task, places, {}, nullptr, Bytes(), state);
      });
    };
    MeasuredPoint point;
    point.batch = batch;
    UCUDNN_ASSIGN_OR_RETURN(point.time, Remember(KeyOf(task, batch), measure));
    measured.push_back(std::move(point));
    return {};
  }

  // Makes the output that a pool's backward pass reads that of its input: how
  // long cuDNN takes depends on where it finds the maxima.
  Status MatchOutput(std::size_t task, BatchSize batch,
                     std::span<float* const> places) {
    const TaskOperation& operation = operations_[task];
    if (operation.what != TaskOperator::kPool ||
        operation.kind != TaskKind::kBackward || !operation.y ||
        operation.x.empty()) {
      return {};
    }
    return operators_.Pool(batch, operation.pooling, places[operation.x[0]],
                           places[*operation.y]);
  }

  template <class Measure>
  Result<Nanoseconds> Remember(const std::string& key, const Measure& measure) {
    const auto known = times_.find(key);
    if (known != times_.end()) return known->second;
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, measure());
    times_.emplace(key, time);
    return time;
  }

  // Equal for tasks that do the same work.
  std::string KeyOf(std::size_t task, BatchSize batch) const {
    const TaskOperation& o = operations_[task];
    const auto extent = [](const ImageExtent& e) {
      return fmt::format("{}x{}x{}", e.channels, e.height, e.width);
    };
    std::string key =
        fmt::format("{} {} {} {} {} {} {} {} {}", static_cast<int>(o.what),
                    static_cast<int>(o.kind), batch.count(), extent(o.input),
                    extent(o.output), o.trained, o.x.size(), o.old.has_value(),
                    o.old == o.dx);
    for (const Window& w : o.pooling.windows) {
      key += fmt::format(" {} {} {}", w.extent, w.stride, w.before);
    }
    return key + fmt::format(" {} {}", static_cast<int>(o.pooling.kind),
                             o.y && !o.x.empty() && o.x[0] == *o.y);
  }

  Device& device_;
  Operators& operators_;
  const std::span<const TaskOperation> operations_;
  const TaskMeasureOptions& options_;
  const std::stop_token& stop_;
  TrainingGraph* const training_;
  std::optional<MeasureBench> bench_;
  TaskRunner runner_;
  std::map<std::pair<ConvProblem, BatchSize>, std::vector<MeasuredPoint>>
      points_;
  std::map<std::string, Nanoseconds> times_;
  DeviceBuffer scratch_;
  DeviceBuffer probabilities_;
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
