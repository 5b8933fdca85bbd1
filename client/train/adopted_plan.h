#ifndef UCUDNN_CLIENT_TRAIN_ADOPTED_PLAN_H_
#define UCUDNN_CLIENT_TRAIN_ADOPTED_PLAN_H_

// A session's memory plan, made ready for this device.

#include <string>

#include "base/result.h"
#include "base/training/memory_plan.h"
#include "client/training/prepared_training.h"
#include "device/device.h"

namespace ucudnn::train {

// Reads the plan (Session::memory_plan), and sets `adopted` to the graph of
// `prepared` with the batch, the link and the costs that it was made with.
// Algorithms are the device's of the same name; where it has none, or the plan
// names none, as for fully connected layers, what it suggests within the
// planned workspace. kFailedPrecondition if the plan is about other tasks or
// blocks, or nothing fits.
Result<MemoryPlan> AdoptPlan(const std::string& plan, Device& device,
                             const PreparedTraining& prepared,
                             TrainingGraph* adopted);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_ADOPTED_PLAN_H_
