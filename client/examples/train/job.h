#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_JOB_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_JOB_H_

// What is trained on what, as options say it.

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "client/examples/train/data.h"
#include "client/examples/train/net.h"
#include "client/examples/train/training.h"

namespace ucudnn::train {

struct Job {
  Net net;  // its name tells its images and classes too
  std::unique_ptr<Dataset> data;
  // Equal for trainings that one checkpoint serves.
  std::uint64_t hash = 0;
};

// Reads what the options name. kInvalidArgument if the data does not fit the
// network; errors of the files.
Result<Job> MakeJob(const TrainOptions& options);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_JOB_H_
