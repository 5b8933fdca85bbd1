#ifndef UCUDNN_CLIENT_TRAIN_STEP_PREDICTION_H_
#define UCUDNN_CLIENT_TRAIN_STEP_PREDICTION_H_

// How long a step of all ranks takes, from their plans and what exchanges cost:
//
//   rank 0   load |--------|s|-----|s|-------|          |updates|
//   rank 1   load |----|   |s|-----| |s|---------|      |updates|
//   buckets                     |sum|         |sum||sum|
//                                                passes
//
// At each exchange of statistics (s) all ranks meet, so a step is longer than
// the slowest rank's passes if ranks are the slowest in turn. A bucket of
// gradients is summed once all ranks have computed it, after the bucket before
// it, beside the passes; the updates follow the last one.

#include <span>
#include <string>
#include <vector>

#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"
#include "device/training/rank_exchange.h"
#include "device/training/task_operations.h"

namespace ucudnn::train {

// When a rank by itself reaches what it does with others, since its passes
// began.
struct RankPasses {
  Nanoseconds loading{0};  // before, of the images
  std::vector<Nanoseconds> meetings;
  std::vector<Nanoseconds> buckets;  // are complete
  Nanoseconds end{0};                // of the passes
  Nanoseconds updates{0};            // after them, with waits between them
  // A gradient lies in host memory when the updates begin.
  bool gradients_on_host = false;
};

// By its plan. No meetings unless normalisations exchange their statistics.
RankPasses PassesOf(const MemoryPlan& plan, const TrainingGraph& training,
                    std::span<const TaskOperation> operations,
                    std::span<const GradientBucket> buckets,
                    bool exchanges_statistics);

// For sending from rank to rank.
std::string Encode(const RankPasses& passes);
RankPasses DecodeRankPasses(const std::string& text);

struct ExchangeCosts {
  Nanoseconds statistics{0};  // of a normalisation, in one direction
  Nanoseconds bucket{0};      // and in addition
  double ns_per_byte = 0;
};

struct StepPrediction {
  std::vector<Nanoseconds> passes;  // of each rank, among the others
  Nanoseconds step{0};
};

// Of the ranks that train, who all meet as often. `buckets` are empty if there
// are no other ranks.
StepPrediction PredictStep(std::span<const RankPasses> ranks,
                           std::span<const GradientBucket> buckets,
                           const ExchangeCosts& costs);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_STEP_PREDICTION_H_
