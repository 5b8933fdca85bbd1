#include "device/training/rank_exchange.h"

#include <algorithm>
#include <memory>
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
  std::map<std::size_t, std::size_t> writers;  // the last of each gradient
  for (std::size_t task = 0; task < training.tasks.size(); ++task) {
    for (const std::size_t block : training.tasks[task].writes) {
      if (training.blocks[block].kind == BlockKind::kWeightGradient) {
        writers[block] = task;
      }
    }
  }
  for (const auto& [block, task] : writers) completed[task].push_back(block);
  std::vector<GradientBucket> buckets;
  for (const auto& [task, blocks] : completed) {
    if (buckets.empty() || buckets.back().size >= least) buckets.emplace_back();
    GradientBucket& bucket = buckets.back();
    for (const std::size_t block : blocks) {
      bucket.blocks.push_back(block);
      bucket.size += training.blocks[block].bytes;
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
  Bytes size;
  for (const TaskOperation& operation : operations) {
    if (!exchange_statistics || !ExchangesSums(operation)) continue;
    rank.statistics_.push_back(SumsOf(operation));
    size = std::max(size, SizeOfSums(SumsOf(operation)));
  }
  const std::vector<GradientBucket> buckets = GradientBuckets(training);
  Bytes gradients;
  for (const GradientBucket& bucket : buckets) gradients += bucket.size;
  UCUDNN_ASSIGN_OR_RETURN(rank.memory_,
                          device.Allocate(std::max(size, gradients)));
  UCUDNN_ASSIGN_OR_RETURN(rank.zeroed_, device.MakeEvent());
  UCUDNN_ASSIGN_OR_RETURN(rank.summed_, device.MakeEvent());
  auto* next = static_cast<float*>(rank.memory_.data());
  for (const GradientBucket& bucket : buckets) {
    ReadyBucket& ready = rank.buckets_.emplace_back();
    ready.ready.push_back(rank.zeroed_.get());
    for (const std::size_t block : bucket.blocks) {
      const auto count =
          static_cast<std::size_t>(training.blocks[block].bytes.count()) /
          sizeof(float);
      ready.gradients.emplace_back(next, count);
      next += count;
    }
  }
  return rank;
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
    UCUDNN_RETURN_IF_ERROR(device_->Fill(memory_.data(), 0, SizeOfSums(count)));
    UCUDNN_RETURN_IF_ERROR(
        exchange.SumStatistics({static_cast<double*>(memory_.data()), count}));
  }
  UCUDNN_RETURN_IF_ERROR(device_->Fill(memory_.data(), 0, memory_.size()));
  UCUDNN_RETURN_IF_ERROR(zeroed_->Set());
  UCUDNN_RETURN_IF_ERROR(exchange.SumGradients(buckets_));
  UCUDNN_RETURN_IF_ERROR(summed_->Set());
  return AwaitOnHost(*summed_, exchange);
}

}  // namespace ucudnn
