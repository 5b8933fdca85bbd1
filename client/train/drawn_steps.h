#ifndef UCUDNN_CLIENT_TRAIN_DRAWN_STEPS_H_
#define UCUDNN_CLIENT_TRAIN_DRAWN_STEPS_H_

// Where the steps of a training cut the images: all alike, or, of a stochastic
// split, as the draw of each step has it.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "client/train/job.h"
#include "client/training/image_parts.h"
#include "client/training/memory_run.h"

namespace ucudnn::train {

struct DrawnStep {
  std::int64_t step = -1;
  std::unique_ptr<PreparedTraining> network = {};  // of a draw
  std::vector<ImagePart> parts = {};
};

class DrawnSteps {
 public:
  // Both outlive it.
  DrawnSteps(const Job& job, const TrainOptions& options)
      : job_(job), options_(options) {}

  bool draws() const { return options_.split && options_.split->stochastic; }

  // Begins anew, for the network that the job has now.
  void Reset();

  // A step's cuts, which stay while those of the next step are asked for. The
  // same on all ranks, and after a checkpoint.
  Result<const DrawnStep*> At(std::int64_t step);

 private:
  const Job& job_;
  const TrainOptions& options_;
  std::array<DrawnStep, 2> steps_;  // in turn
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_DRAWN_STEPS_H_
