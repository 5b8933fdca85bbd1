#ifndef UCUDNN_DEVICE_TRAINING_TASK_PARTS_H_
#define UCUDNN_DEVICE_TRAINING_TASK_PARTS_H_

// Operands of tasks that have several of a kind: Concat, Split and Mul. For
// device/training/task_operations.cc alone.

#include <cstddef>

#include "base/graph.h"
#include "base/result.h"
#include "base/training/dataflow.h"
#include "base/training/graph.h"
#include "device/training/task_operations.h"

namespace ucudnn {

// Sets TaskOperation::parts, and what they make together, of a Concat, a Split
// or a Pad of known windows. kUnimplemented unless it joins computed tensors
// along an axis other than the images', or in a grid (solver/memory/split).
Status SetParts(const Graph& graph, const Dataflow& flow, std::size_t node,
                const TrainingGraph& training, const Task& task,
                TaskOperation* operation);

// Sets TaskOperation::x, span and factors of a Mul. kUnimplemented unless it
// multiplies two computed tensors, of equal sizes or one of them with one value
// for consecutive ones of the other.
Status SetFactors(const Graph& graph, const Dataflow& flow, std::size_t node,
                  const TrainingGraph& training, const Task& task,
                  TaskOperation* operation);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_TRAINING_TASK_PARTS_H_
