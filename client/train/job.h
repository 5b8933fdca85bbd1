#ifndef UCUDNN_CLIENT_TRAIN_JOB_H_
#define UCUDNN_CLIENT_TRAIN_JOB_H_

// The network and the data that the options select.

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "client/train/data.h"
#include "client/train/training.h"
#include "client/training/prepared_training.h"

namespace ucudnn::train {

struct Job {
  TrainingInput input;
  std::unique_ptr<PreparedTraining> network;  // at the mini-batch, not measured
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Dataset> held_out;  // null: nothing is evaluated
  // Equal for trainings that can share a checkpoint.
  std::uint64_t hash = 0;
};

// Reads the network, which `ranks` train together, and the data.
// kInvalidArgument if the data does not fit the network; errors of ReadTraining
// and of reading files.
Result<Job> MakeJob(const TrainOptions& options, int ranks);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_JOB_H_
