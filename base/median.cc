#include "base/median.h"

#include <algorithm>
#include <cstddef>

namespace ucudnn {
namespace {

// The `quarters`-th quartile of sorted times.
Nanoseconds Quartile(const std::vector<Nanoseconds>& times,
                     std::size_t quarters) {
  const std::size_t position = (times.size() - 1) * quarters;
  const Nanoseconds low = times[position / 4];
  const auto part = static_cast<std::int64_t>(position % 4);
  if (part == 0) return low;
  const Nanoseconds step = times[position / 4 + 1] - low;
  return low + step / 4 * part + step % 4 * part / 4;
}

}  // namespace

MedianAndSpread MedianAndSpreadOf(std::vector<Nanoseconds> times) {
  UCUDNN_CHECK(!times.empty());
  std::sort(times.begin(), times.end());
  return {Quartile(times, 2), (Quartile(times, 3) - Quartile(times, 1)) / 2};
}

}  // namespace ucudnn
