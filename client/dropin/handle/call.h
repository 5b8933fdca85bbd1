#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_CALL_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_CALL_H_

// What a program tells cuDNN by the descriptors of a convolution: read by value
// each time, because descriptors may change between two calls, and turned into
// a problem of ours once.

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "client/executor/micro_batches.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/legacy/queries.h"

namespace ucudnn::cudnn {

// The descriptors of a call.
struct CallDescriptors : LegacyDescriptors {
  std::int64_t layer = 0;  // the caller's number for it; 0: not told
};

// All that the descriptors say. Equal keys, equal convolutions.
struct CallKey {
  static constexpr std::size_t kWords = 50;
  std::array<std::int32_t, kWords> words = {};
  friend bool operator==(const CallKey&, const CallKey&) = default;
};
struct CallKeyHash {
  std::size_t operator()(const CallKey& key) const;
};

// About 0.2 us, no allocation. False if cuDNN does not tell: a descriptor is
// null or not set.
bool ReadKey(const CudnnApi& api, const CallDescriptors& descriptors,
             CallKey* key);

struct CallShape {
  ConvProblem problem;
  BatchSize batch;
};
// kUnimplemented, saying why, for what we leave to cuDNN: data other than
// float, half and bfloat16, tensors that are not packed as NCHW or NHWC, data
// and filter laid out differently, flipped filters, arithmetic that we have no
// name for, shapes that do not belong together.
Result<CallShape> ShapeOf(const CallKey& key);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_CLIENT_DROPIN_HANDLE_CALL_H_
