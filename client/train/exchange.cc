#include "client/train/exchange.h"

#include <algorithm>
#include <utility>

#include "base/median.h"
#include "client/gradients/gradient_sum.h"

namespace ucudnn::train {
Status JobExchange::Begin() {
  phase_ = Phase::kPasses;
  for (int turn = 0; turn < turns_.mine; ++turn) {
    UCUDNN_RETURN_IF_ERROR(ranks_.Barrier(Soon()));
  }
  in_turn_ = true;
  return {};
}

Status JobExchange::EndTurn() {
  if (!std::exchange(in_turn_, false) || turns_.all == 1) return {};
  const Status computed = device_.Synchronize();
  for (int turn = turns_.mine; turn < turns_.all; ++turn) {
    UCUDNN_RETURN_IF_ERROR(ranks_.Barrier(Soon()));
  }
  return computed;
}

Status JobExchange::Prepare() {
  DeviceBuffer memory;
  if (device_.stream() != nullptr) {
    auto queue = device_.MakeCopyQueue();
    auto summed = device_.MakeEvent();
    auto allocated = device_.Allocate(Bytes(256));
    if (queue && summed && allocated) {
      queue_ = *std::move(queue);
      summed_ = *std::move(summed);
      memory = *std::move(allocated);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(const bool gradients,
                          reducer_.PrepareToEnqueue(memory.data(), Soon()));
  if (!gradients) return {};
  UCUDNN_ASSIGN_OR_RETURN(enqueues_,
                          statistics_.PrepareToEnqueue(memory.data(), Soon()));
  return {};
}

Result<bool> JobExchange::AllCan(bool can, const Status& mine) {
  UCUDNN_ASSIGN_OR_RETURN(
      const std::vector<std::int64_t> most,
      ranks_.MaxOfEach({mine ? 0 : 1, can ? 0 : 1}, Soon()));
  if (most[0] == 0) return most[1] == 0;
  failed_ = true;
  AbortEnqueued();
  UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks_.AllOf(mine, Soon()));
  return tl::unexpected<Error>(all.error());
}

template <class Exchange>
Result<Nanoseconds> JobExchange::TimeOf(Event& done, const Exchange& exchange) {
  constexpr int kTimes = 7;
  constexpr int kInARow = 8;
  std::vector<Nanoseconds> times;
  for (int i = 0; i < kTimes; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    for (int k = 0; k < kInARow; ++k) UCUDNN_RETURN_IF_ERROR(exchange());
    UCUDNN_RETURN_IF_ERROR(done.Set());
    UCUDNN_RETURN_IF_ERROR(AwaitOnHost(done, *this));
    times.push_back((std::chrono::steady_clock::now() - begun) / kInARow);
  }
  return MedianAndSpreadOf(std::move(times)).median;
}

Result<ExchangeCosts> JobExchange::Measure(bool statistics) {
  constexpr std::size_t kChannels = 256;
  constexpr Bytes kLong = 8_MiB;
  DeviceBuffer memory;
  std::unique_ptr<Event> event;
  const auto prepare = [&]() -> Status {
    UCUDNN_ASSIGN_OR_RETURN(memory, device_.Allocate(kLong));
    UCUDNN_RETURN_IF_ERROR(device_.Fill(memory.data(), 0, kLong));
    UCUDNN_ASSIGN_OR_RETURN(event, device_.MakeEvent());
    return event->Set();
  };
  UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks_.AllOf(prepare(), Soon()));
  UCUDNN_RETURN_IF_ERROR(all);
  const auto sum = [&](Bytes size) {
    ReadyBucket bucket;
    bucket.ready.push_back(event.get());
    bucket.gradients.emplace_back(
        static_cast<float*>(memory.data()),
        static_cast<std::size_t>(size.count()) / sizeof(float));
    return TimeOf(*event, [this, bucket = std::move(bucket)]() -> Status {
      UCUDNN_RETURN_IF_ERROR(SumGradients(std::span(&bucket, 1)));
      phase_ = Phase::kPasses;  // another exchange follows
      return Status();
    });
  };
  ExchangeCosts costs;
  if (statistics) {
    const std::span<double> sums(static_cast<double*>(memory.data()),
                                 2 * kChannels);
    UCUDNN_ASSIGN_OR_RETURN(costs.statistics, TimeOf(*event, [this, sums] {
                              return SumStatistics(sums);
                            }));
  }
  UCUDNN_ASSIGN_OR_RETURN(costs.bucket, sum(Bytes(4096)));
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds large, sum(kLong));
  costs.ns_per_byte =
      std::max(0.0, static_cast<double>((large - costs.bucket).count())) /
      static_cast<double>(kLong.count());
  return costs;
}

void JobExchange::AbortEnqueued() {
  if (!enqueues_) return;
  statistics_.Abort();
  reducer_.Abort();
}

Status JobExchange::Refuse(const Error& error) {
  Status mine = tl::unexpected<Error>(error);
  if (failed_) return mine;
  if (follows_) {
    mine = Status();
  } else if (enqueues_) {
    ranks_.Alarm();
    AbortEnqueued();
  }
  if (phase_ == Phase::kEnd) return mine;
  failed_ = true;
  if (enqueues_ && phase_ == Phase::kPasses) {
    static_cast<void>(AllCan(false, mine));
  } else if (EndTurn() || ranks_.usable()) {
    // The others are in a sum, or come to one, which ends with this error.
    static_cast<void>(ScaleAndSum<float>(ranks_, {}, 1.0, Soon(), mine));
  }
  return mine;
}

template <class T>
Status JobExchange::Sum(std::span<T> values) {
  Status summed = reducer_.Sum(values, 1.0, nullptr, Soon());
  failed_ = !summed;
  return summed;
}

Status JobExchange::Check() {
  if (!enqueues_ || failed_) return {};
  if (ranks_.Alarmed()) {
    follows_ = true;
    AbortEnqueued();
    return Fail(Code::kUnavailable, "another rank has failed");
  }
  UCUDNN_RETURN_IF_ERROR(statistics_.Check());
  return reducer_.Check();
}

Status JobExchange::SumStatistics(std::span<double> sums) {
  if (enqueues_) {
    return statistics_.Enqueue<double>({&sums, 1}, device_.stream(), Soon());
  }
  UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
  return Sum(sums);
}

Status JobExchange::SumGradients(std::span<const ReadyBucket> buckets) {
  if (enqueues_) {
    bool on_gpu = true;
    for (const ReadyBucket& bucket : buckets) {
      for (const std::span<float> gradient : bucket.gradients) {
        on_gpu = on_gpu && reducer_.IsGpuMemory(gradient.data());
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(const bool all, AllCan(on_gpu, Status()));
    if (all) {
      phase_ = Phase::kEnd;
      return EnqueueSums(buckets);
    }
  }
  phase_ = Phase::kSums;
  for (const ReadyBucket& bucket : buckets) {
    for (Event* const ready : bucket.ready) {
      UCUDNN_RETURN_IF_ERROR(AwaitOnHost(*ready, *this));
    }
    UCUDNN_RETURN_IF_ERROR(EndTurn());
    UCUDNN_RETURN_IF_ERROR(SumBucket(bucket.gradients));
  }
  phase_ = Phase::kEnd;
  return {};
}

Status JobExchange::EnqueueSums(std::span<const ReadyBucket> buckets) {
  for (const ReadyBucket& bucket : buckets) {
    for (Event* const ready : bucket.ready) {
      UCUDNN_RETURN_IF_ERROR(queue_->WaitFor(*ready));
    }
    UCUDNN_RETURN_IF_ERROR(
        reducer_.Enqueue<float>(bucket.gradients, queue_->stream(), Soon()));
  }
  UCUDNN_RETURN_IF_ERROR(queue_->Set(*summed_));
  return device_.WaitFor(*summed_);
}

Status JobExchange::SumBucket(std::span<const std::span<float>> bucket) {
  if (!on_host_) {
    for (const std::span<float> gradient : bucket) {
      UCUDNN_RETURN_IF_ERROR(Sum(gradient));
    }
    return {};
  }
  // One sum of all of them takes less time.
  staged_.clear();
  for (const std::span<float> gradient : bucket) {
    staged_.insert(staged_.end(), gradient.begin(), gradient.end());
  }
  UCUDNN_RETURN_IF_ERROR(Sum(std::span<float>(staged_)));
  auto from = staged_.cbegin();
  for (const std::span<float> gradient : bucket) {
    std::copy_n(from, gradient.size(), gradient.begin());
    from += std::ssize(gradient);
  }
  return {};
}

}  // namespace ucudnn::train
