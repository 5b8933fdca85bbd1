#include "device/training/rank_exchange.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

namespace ucudnn {
namespace {

// Of a normalisation: two for each channel.
std::size_t SumsOf(const TaskOperation& operation) {
  return 2 * static_cast<std::size_t>(operation.normalisation.extent.channels);
}

bool ExchangesSums(const TaskOperation& operation) {
  return operation.what == TaskOperator::kNormalise;
}

Bytes SizeOfSums(std::size_t count) {
  return Bytes(static_cast<std::int64_t>(count * sizeof(double)));
}

}  // namespace

std::vector<GradientBucket> GradientBuckets(const TrainingGraph& training,
                                            Bytes least) {
  // By the task that completes it.
  std::map<std::size_t, std::vector<std::size_t>> completed;
  std::vector<std::optional<std::size_t>> writers(training.blocks.size());
  for (std::size_t task = 0; task < training.tasks.size(); ++task) {
    for (const std::size_t block : training.tasks[task].writes) {
      if (training.blocks[block].kind == BlockKind::kWeightGradient) {
        writers[block] = task;
      }
    }
  }
  for (std::size_t block = 0; block < writers.size(); ++block) {
    if (writers[block]) completed[*writers[block]].push_back(block);
  }
  std::vector<GradientBucket> buckets;
  Bytes size = least;
  for (const auto& [task, blocks] : completed) {
    if (size >= least) {
      buckets.emplace_back();
      size = Bytes();
    }
    GradientBucket& bucket = buckets.back();
    bucket.task = task;
    for (const std::size_t block : blocks) {
      bucket.blocks.push_back(block);
      size += training.blocks[block].bytes;
    }
  }
  return buckets;
}

Result<SharedStatistics> SharedStatistics::Create(
    Device& device, std::span<const TaskOperation> operations, BatchSize images,
    RankExchange& exchange) {
  SharedStatistics shared;
  shared.exchange_ = &exchange;
  shared.images_ = images;
  std::size_t forward = 0;
  std::size_t largest = 0;
  for (const TaskOperation& operation : operations) {
    if (!ExchangesSums(operation)) continue;
    largest = std::max(largest, SumsOf(operation));
    if (operation.kind == TaskKind::kForward) forward += SumsOf(operation);
  }
  UCUDNN_ASSIGN_OR_RETURN(shared.memory_,
                          device.Allocate(SizeOfSums(forward + largest)));
  auto* next = static_cast<double*>(shared.memory_.data());
  shared.backward_ = next + forward;
  for (std::size_t task = 0; task < operations.size(); ++task) {
    const TaskOperation& operation = operations[task];
    if (!ExchangesSums(operation) || operation.kind != TaskKind::kForward) {
      continue;
    }
    shared.forward_[task] = {next, SumsOf(operation)};
    next += SumsOf(operation);
  }
  return shared;
}

std::span<double> SharedStatistics::Forward(std::size_t task) {
  return forward_.at(task);
}

std::span<double> SharedStatistics::Backward(const TaskOperation& operation) {
  return {backward_, SumsOf(operation)};
}

Result<IdleRank> IdleRank::Create(Device& device, const TrainingGraph& training,
                                  std::span<const TaskOperation> operations,
                                  bool exchange_statistics) {
  IdleRank rank;
  rank.device_ = &device;
  Bytes largest;
  for (const TaskOperation& operation : operations) {
    if (!exchange_statistics || !ExchangesSums(operation)) continue;
    rank.statistics_.push_back(SumsOf(operation));
    largest = std::max(largest, SizeOfSums(SumsOf(operation)));
  }
  for (const GradientBucket& bucket : GradientBuckets(training)) {
    std::vector<std::size_t>& counts = rank.buckets_.emplace_back();
    Bytes size;
    for (const std::size_t block : bucket.blocks) {
      const Bytes bytes = training.blocks[block].bytes;
      counts.push_back(static_cast<std::size_t>(bytes.count()) / sizeof(float));
      size += bytes;
    }
    largest = std::max(largest, size);
  }
  UCUDNN_ASSIGN_OR_RETURN(rank.memory_, device.Allocate(largest));
  return rank;
}

template <class T>
Result<std::span<T>> IdleRank::Zeros(std::size_t count) {
  UCUDNN_RETURN_IF_ERROR(device_->Fill(
      memory_.data(), 0, Bytes(static_cast<std::int64_t>(count * sizeof(T)))));
  return std::span<T>(static_cast<T*>(memory_.data()), count);
}

Status AwaitOnHost(Event& event, RankExchange& exchange) {
  constexpr int kChecked = 1000;
  for (int polls = 1;; ++polls) {
    UCUDNN_ASSIGN_OR_RETURN(const bool reached, event.Reached());
    if (reached) return {};
    if (polls % kChecked == 0) UCUDNN_RETURN_IF_ERROR(exchange.Check());
    std::this_thread::yield();
  }
}

Status IdleRank::Step(RankExchange& exchange) {
  for (const std::size_t count : statistics_) {
    UCUDNN_ASSIGN_OR_RETURN(const std::span<double> sums, Zeros<double>(count));
    UCUDNN_RETURN_IF_ERROR(exchange.SumStatistics(sums));
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<Event> zeroed,
                          device_->MakeEvent());
  for (const std::vector<std::size_t>& counts : buckets_) {
    const std::size_t all =
        std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    UCUDNN_ASSIGN_OR_RETURN(const std::span<float> zeros, Zeros<float>(all));
    std::vector<std::span<float>> bucket;
    std::size_t first = 0;
    for (const std::size_t count : counts) {
      bucket.push_back(zeros.subspan(first, count));
      first += count;
    }
    UCUDNN_RETURN_IF_ERROR(zeroed->Set());
    UCUDNN_RETURN_IF_ERROR(AwaitOnHost(*zeroed, exchange));
    UCUDNN_RETURN_IF_ERROR(exchange.SumGradients(bucket));
  }
  return {};
}

}  // namespace ucudnn
