#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_JOB_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_JOB_H_

// The network and the data that the options select.

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "client/examples/train/data.h"
#include "client/examples/train/net.h"
#include "client/examples/train/training.h"

namespace ucudnn::train {

struct Job {
  Net net;  // its name includes the image size and classes
  std::unique_ptr<Dataset> data;
  // Equal for trainings that can share a checkpoint.
  std::uint64_t hash = 0;
};

// Reads the network and the data. kInvalidArgument if the data does not fit the
// network; errors of reading files.
Result<Job> MakeJob(const TrainOptions& options);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_JOB_H_
