#ifndef UCUDNN_BASE_PLAN_EVEN_SHARES_H_
#define UCUDNN_BASE_PLAN_EVEN_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace ucudnn {

// `batch` on `ranks`, at least one, as evenly as can be: the larger shares
// first, which are larger by one.
inline std::vector<BatchSize> EvenShares(BatchSize batch, std::size_t ranks) {
  const auto n = static_cast<std::int64_t>(ranks);
  std::vector<BatchSize> shares;
  for (std::int64_t r = 0; r < n; ++r) {
    shares.emplace_back(batch.count() / n + (r < batch.count() % n ? 1 : 0));
  }
  return shares;
}

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PLAN_EVEN_SHARES_H_
