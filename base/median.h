#ifndef UCUDNN_BASE_MEDIAN_H_
#define UCUDNN_BASE_MEDIAN_H_

// What repeated measurements of one thing say together.

#include <vector>

#include "base/units.h"

namespace ucudnn {

struct MedianAndSpread {
  Nanoseconds median{0};
  Nanoseconds spread{0};  // half the distance of the middle quartiles
};

// The median and spread of `times`, in any order, none negative, at least one.
// Between two measurements quantiles are interpolated linearly and rounded
// down to the nanosecond.
MedianAndSpread MedianAndSpreadOf(std::vector<Nanoseconds> times);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_MEDIAN_H_
