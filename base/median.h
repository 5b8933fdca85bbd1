#ifndef UCUDNN_BASE_MEDIAN_H_
#define UCUDNN_BASE_MEDIAN_H_

// The summary of repeated measurements of one thing.

#include <vector>

#include "base/units.h"

namespace ucudnn {

struct MedianAndSpread {
  Nanoseconds median{0};
  Nanoseconds spread{0};  // half the interquartile range
};

// The median and spread of `times`, in any order, none negative, at least one.
// Quantiles between two measurements are interpolated linearly and rounded down
// to the nanosecond.
MedianAndSpread MedianAndSpreadOf(std::vector<Nanoseconds> times);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_MEDIAN_H_
