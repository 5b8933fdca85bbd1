#ifndef UCUDNN_CLIENT_TRAIN_EXCHANGE_H_
#define UCUDNN_CLIENT_TRAIN_EXCHANGE_H_

// What ranks exchange within a step, by NCCL or MPI
// (client/gradients/all_reduce.h).

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/gradients/all_reduce.h"
#include "client/ranks/ranks.h"
#include "client/train/shares.h"
#include "client/train/step_prediction.h"
#include "device/device.h"
#include "device/training/rank_exchange.h"

namespace ucudnn::train {

// Longer than any rank computes between two collective calls.
constexpr std::chrono::minutes kCollectiveTimeout{30};
inline Ranks::Deadline Soon() {
  return std::chrono::steady_clock::now() + kCollectiveTimeout;
}

class JobExchange final : public RankExchange {
 public:
  // The arguments must outlive it. With turns, each rank's passes run before
  // the next rank's begin: statistics cannot be exchanged then. `on_host`: all
  // ranks' device memory is the host's.
  JobExchange(Ranks& ranks, Device& device, Turns turns, bool on_host)
      : ranks_(ranks),
        device_(device),
        turns_(turns),
        on_host_(on_host),
        reducer_(ranks),
        statistics_(ranks) {}

  // Collective, before any exchange: where each rank has a GPU of its own, sums
  // are enqueued there from now on, without the host.
  Status Prepare();

  // Collective, before there are executors: what exchanges take between all
  // ranks. Statistics only if they are exchanged. kResourceExhausted.
  Result<ExchangeCosts> Measure(bool statistics);

  // Collective, before each step: waits for this rank's turn.
  Status Begin();
  // In place of the rest of a step that failed on this rank: the other ranks
  // return the error instead of waiting. Returns this rank's outcome, which all
  // ranks then tell each other as at the end of every step.
  Status Refuse(const Error& error);
  // How gradients were last summed.
  const std::string& method() const { return reducer_.method(); }
  bool stream_ordered() const override { return enqueues_; }
  Status SumStatistics(std::span<double> sums) override;
  Status SumGradients(std::span<const ReadyBucket> buckets) override;
  Status Check() override;

 private:
  // Where all ranks are within a step, which decides how one can refuse.
  enum class Phase {
    kPasses,  // until all know that they go on to sum gradients
    kSums,    // they sum them one after another
    kEnd      // no rank waits for another until the step's end
  };

  Status EndTurn();
  // What has been enqueued would wait for a rank that failed.
  void AbortEnqueued();
  // Collective where sums are enqueued: whether all ranks go on, and `can`. The
  // same error on all ranks if one has failed.
  Result<bool> AllCan(bool can, const Status& mine);
  // The median time of one of several `exchange`.
  template <class Exchange>
  Result<Nanoseconds> TimeOf(Event& done, const Exchange& exchange);
  // Enqueues all sums, in a queue beside the device's order of work.
  Status EnqueueSums(std::span<const ReadyBucket> buckets);
  Status SumBucket(std::span<const std::span<float>> bucket);
  template <class T>
  Status Sum(std::span<T> values);

  Ranks& ranks_;
  Device& device_;
  const Turns turns_;
  const bool on_host_;
  AllReducer reducer_;     // of gradients
  AllReducer statistics_;  // of a communicator of its own: both sum at once
  bool enqueues_ = false;
  std::unique_ptr<CopyQueue> queue_;  // of sums that are enqueued
  std::unique_ptr<Event> summed_;     // its end
  std::vector<float> staged_;
  bool in_turn_ = false;
  Phase phase_ = Phase::kPasses;
  bool failed_ = false;   // an exchange, and thus on all ranks
  bool follows_ = false;  // another rank has failed, and will say why
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_EXCHANGE_H_
