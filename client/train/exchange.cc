#include "client/train/exchange.h"

#include <algorithm>
#include <utility>

#include "client/gradients/gradient_sum.h"

namespace ucudnn::train {
Status JobExchange::Begin() {
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
    if (auto allocated = device_.Allocate(Bytes(256))) {
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
  UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks_.AllOf(mine, Soon()));
  return tl::unexpected<Error>(all.error());
}

void JobExchange::Refuse(const Error& error) {
  if (failed_) return;
  failed_ = true;
  if (enqueues_) {
    ranks_.Alarm();
    statistics_.Abort();
    reducer_.Abort();
    static_cast<void>(AllCan(false, tl::unexpected<Error>(error)));
    return;
  }
  if (!EndTurn() && !ranks_.usable()) return;
  // All ranks get the error, which they know how to tell.
  static_cast<void>(ScaleAndSum<float>(ranks_, {}, 1.0, Soon(),
                                       tl::unexpected<Error>(error)));
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
    // What waits for the other rank ends, and then its error is told.
    statistics_.Abort();
    reducer_.Abort();
    UCUDNN_ASSIGN_OR_RETURN(const bool all, AllCan(false, Status()));
    UCUDNN_CHECK(!all);
    return Fail(Code::kUnavailable, "another rank has failed");
  }
  const Result<bool> done = statistics_.Done();
  return done ? Status() : tl::unexpected<Error>(done.error());
}

Status JobExchange::SumStatistics(std::span<double> sums) {
  if (enqueues_) return statistics_.Enqueue(sums, device_.stream(), Soon());
  UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
  return Sum(sums);
}

Status JobExchange::SumEach(std::span<const std::span<float>> bucket) {
  for (const std::span<float> gradient : bucket) {
    UCUDNN_RETURN_IF_ERROR(Sum(gradient));
  }
  return {};
}

Status JobExchange::SumGradients(std::span<const std::span<float>> bucket) {
  UCUDNN_RETURN_IF_ERROR(EndTurn());
  if (enqueues_) {
    const bool on_gpu = std::ranges::all_of(bucket, [&](const auto& gradient) {
      return reducer_.IsGpuMemory(gradient.data());
    });
    UCUDNN_ASSIGN_OR_RETURN(const bool all, AllCan(on_gpu, Status()));
    if (!all) return SumEach(bucket);
    for (const std::span<float> gradient : bucket) {
      UCUDNN_RETURN_IF_ERROR(reducer_.Enqueue(gradient, nullptr, Soon()));
    }
    for (;;) {
      UCUDNN_ASSIGN_OR_RETURN(const bool done, reducer_.Done());
      if (done) return {};
      UCUDNN_RETURN_IF_ERROR(Check());
    }
  }
  if (!on_host_) return SumEach(bucket);
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
