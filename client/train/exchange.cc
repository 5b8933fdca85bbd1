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

void JobExchange::Refuse(const Error& error) {
  if (failed_) return;
  failed_ = true;
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

Status JobExchange::SumStatistics(std::span<double> sums) {
  UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
  return Sum(sums);
}

Status JobExchange::SumGradients(std::span<const std::span<float>> bucket) {
  UCUDNN_RETURN_IF_ERROR(EndTurn());
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
