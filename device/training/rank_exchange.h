#ifndef UCUDNN_DEVICE_TRAINING_RANK_EXCHANGE_H_
#define UCUDNN_DEVICE_TRAINING_RANK_EXCHANGE_H_

// What ranks that train parts of one mini-batch do together within a step.
//
//   forward        backward           updates
//   s1   s2        t2      t1         u1 u2 ...
//     \    \         \       \       /
//      statistics     statistics    gradients, bucket by bucket
//
// Every rank makes the same calls in the same order, which follows from the
// network alone:
//   1. in the forward pass, one SumStatistics for each normalisation;
//   2. in the backward pass, one for each, in its order;
//   3. one SumGradients, of all GradientBuckets, while the device may still
//      compute the gradients of the later ones.
// Without ExecutionOptions::exchange_statistics there is only 3. Rounds of a
// rank add up their gradients first, so 3 happens once a step. What a plan
// computes again is not exchanged again.
//
// A rank without images has no plan, and takes part with an IdleRank.

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "device/device.h"
#include "device/training/task_operations.h"

namespace ucudnn {

// Gradients that are summed at once. A gradient is in device memory, or in host
// memory of the device's if the rank's plan has moved it there.
struct ReadyBucket {
  std::vector<Event*> ready;  // that are set, behind which they are complete
  std::vector<std::span<float>> gradients;
};

// Implementations know the ranks, the device and a deadline. If a rank fails
// between two calls, the others' next call must fail by the deadline.
class RankExchange {
 public:
  virtual ~RankExchange() = default;

  // Whether SumStatistics does nothing but enqueue, so that it can be captured
  // (Device::Capture). Constant.
  virtual bool stream_ordered() const = 0;

  // Replaces `sums`, in device memory, by their sums over all ranks. This
  // rank's are computed by what is enqueued in the device's order of work, and
  // what is enqueued after the call sees the result. A call that cannot enqueue
  // the exchange waits for the device.
  virtual Status SumStatistics(std::span<double> sums) = 0;

  // The same for all gradients, bucket by bucket, beside what is enqueued in
  // the device's order of work: each once it is complete. What is enqueued
  // after the call sees the sums of all. The host waits where it sums itself.
  virtual Status SumGradients(std::span<const ReadyBucket> buckets) = 0;

  // Asked while the host waits for what is enqueued: an error if that waits for
  // a rank that failed. Then it is ended.
  virtual Status Check() { return {}; }
};

// Waits for an event, behind which exchanges may have been enqueued, without
// occupying the core: exchanges and copies have threads of their own.
Status AwaitOnHost(Event& event, RankExchange& exchange);

// Gradients that are summed at once.
struct GradientBucket {
  std::vector<std::size_t> blocks;
  Bytes size;
};

// The gradients of all weights, in the order in which the backward pass
// completes them; each bucket has at least `least` bytes, except the last. The
// same for all batches of a network.
std::vector<GradientBucket> GradientBuckets(const TrainingGraph& training,
                                            Bytes least = 2_MiB);

// The sums that normalisations exchange. Those of the forward pass stay until
// the next step, so that what a plan computes again needs no exchange.
class SharedStatistics {
 public:
  // For `images` of all ranks. `device` and `exchange` must outlive the result.
  // kResourceExhausted: two doubles a channel, and as many again for the layer
  // with the most.
  static Result<SharedStatistics> Create(
      Device& device, std::span<const TaskOperation> operations,
      BatchSize images, RankExchange& exchange);

  RankExchange& exchange() { return *exchange_; }
  BatchSize images() const { return images_; }
  // Device memory for the sums of a normalisation's forward task, and of any
  // backward task.
  std::span<double> Forward(std::size_t task);
  std::span<double> Backward(const TaskOperation& operation);

 private:
  RankExchange* exchange_ = nullptr;
  BatchSize images_;
  std::map<std::size_t, std::span<double>> forward_;
  double* backward_ = nullptr;
  DeviceBuffer memory_;
};

// A rank whose share of the mini-batch is empty: contributes zeros. It has no
// parameters; when it gets a share, it takes those of another rank.
class IdleRank {
 public:
  // `training` may be for any batch. The arguments are not kept, except
  // `device`, which must outlive the result. kResourceExhausted: it takes as
  // much device memory as all gradients.
  static Result<IdleRank> Create(Device& device, const TrainingGraph& training,
                                 std::span<const TaskOperation> operations,
                                 bool exchange_statistics);

  // What MemoryExecutor::Step of the other ranks waits for.
  Status Step(RankExchange& exchange);

 private:
  IdleRank() = default;

  Device* device_ = nullptr;
  std::vector<std::size_t> statistics_;  // sums of each exchange
  std::vector<ReadyBucket> buckets_;     // in `memory_`
  std::unique_ptr<Event> zeroed_;
  std::unique_ptr<Event> summed_;
  DeviceBuffer memory_;
};

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_TRAINING_RANK_EXCHANGE_H_
