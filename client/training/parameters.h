#ifndef UCUDNN_CLIENT_TRAINING_PARAMETERS_H_
#define UCUDNN_CLIENT_TRAINING_PARAMETERS_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/training/graph.h"
#include "device/training/task_operations.h"

namespace ucudnn {

// What a training keeps between steps: the values of every block of weights or
// momentum, by block.
using Parameters = std::map<std::size_t, std::vector<float>>;

// Filters after He et al. (uniform, with variance 2 / inputs of an output), no
// bias, normalisations that change nothing, and no momentum. The same for the
// same seed.
Parameters InitialParameters(const TrainingGraph& training,
                             std::span<const TaskOperation> operations,
                             std::uint64_t seed);

// Sets the weights to those of the same network, split or not: splitting it
// keeps their order.
void CopyWeights(const TrainingGraph& from_training, const Parameters& from,
                 const TrainingGraph& training, Parameters* parameters);

// Images of uniform values in [-1, 1], and labels, for the graph's mini-batch;
// the same for the same seed.
struct SyntheticBatch {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
};
SyntheticBatch MakeSyntheticBatch(const TrainingGraph& training,
                                  std::span<const TaskOperation> operations,
                                  std::uint64_t seed);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_PARAMETERS_H_
