#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_CALL_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_CALL_H_

// Describes a convolution call by its cuDNN descriptors. They are read by value
// on every call, because a program may change them between calls, and converted
// to a ConvProblem once for each distinct value.

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/legacy/queries.h"
#include "device/micro_batches.h"

namespace ucudnn::cudnn {

// The descriptors of a call.
struct CallDescriptors : LegacyDescriptors {
  std::int64_t layer = 0;  // the caller's layer number; 0: none
};

// Everything that the descriptors contain. Equal keys mean equal convolutions.
struct CallKey {
  static constexpr std::size_t kWords = 50;
  std::array<std::int32_t, kWords> words = {};
  friend bool operator==(const CallKey&, const CallKey&) = default;
};
struct CallKeyHash {
  std::size_t operator()(const CallKey& key) const;
};

// Takes about 0.2 us and does not allocate. False if cuDNN does not report the
// values: a descriptor is null or not set.
bool ReadKey(const CudnnApi& api, const CallDescriptors& descriptors,
             CallKey* key);

struct CallShape {
  ConvProblem problem;
  BatchSize batch;
};
// kUnimplemented, with the reason, for convolutions that are left to cuDNN:
// data other than float, half and bfloat16, tensors not packed as NCHW or NHWC,
// data and filter in different layouts, flipped filters, arithmetic without a
// Precision, inconsistent shapes.
Result<CallShape> ShapeOf(const CallKey& key);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_CLIENT_DROPIN_HANDLE_CALL_H_
