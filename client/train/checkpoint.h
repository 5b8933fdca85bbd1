#ifndef UCUDNN_CLIENT_TRAIN_CHECKPOINT_H_
#define UCUDNN_CLIENT_TRAIN_CHECKPOINT_H_

// The state of a training run on disk. The file holds little-endian numbers:
// the text "uctrain2", the number of steps done, a hash of the training job,
// the number of values, the values as floats, and the CRC-32 of everything
// before it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "client/training/parameters.h"

namespace ucudnn::train {

struct Checkpoint {
  std::int64_t steps = 0;  // done
  // The hash of everything that a resumed training must have in common: the
  // network, the precision, the data, the mini-batch, the seed, the rate, the
  // momentum and what statistics are taken over.
  std::uint64_t job = 0;
  // Of weights, running statistics and momentum.
  std::vector<float> values;
};

// The values of a graph's parameters, by the blocks' names.
std::vector<float> ValuesOf(const TrainingGraph& graph,
                            const Parameters& parameters);
// Replaces the values of `parameters`, which are the graph's. False if there
// are not as many.
bool SetValues(const TrainingGraph& graph, std::span<const float> values,
               Parameters* parameters);

std::string Encode(const Checkpoint& checkpoint);
// Parses the output of Encode. `source` names the text in errors.
// kInvalidArgument: not a checkpoint; kDataLoss: it is damaged. Messages give
// the offset, the value found and the value expected.
Result<Checkpoint> DecodeCheckpoint(std::string_view text,
                                    std::string_view source);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_CHECKPOINT_H_
