#ifndef UCUDNN_COORDINATOR_MEASURING_MEASURED_BATCH_H_
#define UCUDNN_COORDINATOR_MEASURING_MEASURED_BATCH_H_

// All points of a kind's problem at one batch, which are stored in one row as
// one message (ucudnn.v1.StoredBatch).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/measured_point.h"
#include "base/result.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

// Points of one origin.
struct StoredPoints {
  PointOrigin origin;
  std::vector<MeasuredPoint> points;
};

// A point in memory.
struct PointRef {
  const MeasuredPoint* point;
  const PointOrigin* origin;
};

// The columns of its row.
struct PackedBatch {
  std::int64_t points = 0;
  std::int64_t drivers = 0;    // how many its points were measured under
  std::string driver;          // the first of them
  UnixMillis measured_ms = 0;  // when the last was measured
  std::string body;
};

// Packs points, sorted by algorithm and workspace. Of those with one algorithm
// and workspace the last is kept, so newer ones come behind older ones.
PackedBatch Pack(std::span<const PointRef> points);

// kDataLoss if Pack has not written it.
Result<std::vector<StoredPoints>> Unpack(const std::string& body);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_MEASURED_BATCH_H_
