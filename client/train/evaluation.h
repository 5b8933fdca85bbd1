#ifndef UCUDNN_CLIENT_TRAIN_EVALUATION_H_
#define UCUDNN_CLIENT_TRAIN_EVALUATION_H_

// Evaluates a trained network on images that are held out.

#include <stop_token>

#include "base/result.h"
#include "client/train/job.h"
#include "client/train/shares.h"
#include "client/training/memory_executor.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn::train {

// Of a rank's share of the images, by a plan of its own for few images at once:
// of the network as the model has it, undivided, with the parameters of
// `job.network`. Memory of the rank's training is free. Not collective.
Result<Evaluation> EvaluateShare(Device& device, Operators& operators,
                                 const Job& job, const TrainOptions& options,
                                 const Part& part, const std::stop_token& stop);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_EVALUATION_H_
