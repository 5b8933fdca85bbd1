#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_CHECKPOINT_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_CHECKPOINT_H_

// Where a training stands, on disk. A file of little-endian numbers: the text
// "uctrain1", the number of steps done, a hash of what was trained, the number
// of parameters, the filters and the velocities as floats, and the CRC-32 of
// all that.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "client/examples/train/parameters.h"

namespace ucudnn::train {

struct Checkpoint {
  std::int64_t steps = 0;  // done
  // Of all that a continued training must share: the network, the data, the
  // mini-batch, the seed and the rates.
  std::uint64_t job = 0;
  Parameters::State state;
};

std::string Encode(const Checkpoint& checkpoint);
// Reads back what Encode writes. `source` names the text in errors.
// kInvalidArgument: it is no checkpoint; kDataLoss: it is damaged; each with
// the offset, the value there and what is expected.
Result<Checkpoint> DecodeCheckpoint(std::string_view text,
                                    std::string_view source);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_CHECKPOINT_H_
