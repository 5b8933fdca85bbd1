#ifndef UCUDNN_TESTS_SOLVER_INSTANCES_H_
#define UCUDNN_TESTS_SOLVER_INSTANCES_H_

// Seeded random measurements for property tests, and answers found in the slow
// obvious way. Numbers are small, so that ties are frequent.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/plan/plan.h"
#include "base/profile.h"

namespace ucudnn::test {

using Random = std::mt19937_64;

inline constexpr std::array kPolicies = {
    BatchPolicy::kAll, BatchPolicy::kPowerOfTwo, BatchPolicy::kUndivided};

// A number in [low, high], the same with every standard library.
inline std::int64_t Draw(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(
                   random() % static_cast<std::uint64_t>(high - low + 1));
}

inline MeasuredPoint Point(std::int64_t batch, const std::string& algorithm,
                           std::int64_t workspace, std::int64_t time,
                           std::int64_t spread = 0) {
  return {BatchSize(batch),    {algorithm, "FMA", Precision::kFp32},
          Bytes(workspace),    Nanoseconds(time),
          Nanoseconds(spread), spread > 0 ? 5 : 1};
}

struct InstanceShape {
  std::int64_t max_batch = 8;
  std::int64_t max_points_per_batch = 3;
  std::int64_t max_time = 30;       // of one image
  std::int64_t max_workspace = 12;  // in all
  std::int64_t max_spread = 0;
  std::int64_t max_adding = 0;
};

// Points of sizes 1 to max_batch in random order, with a third of the sizes
// missing. Times grow with the batch, at random rates.
inline KernelProfile RandomKernel(Random& random, const InstanceShape& shape,
                                  const std::string& layer = "conv") {
  KernelProfile kernel;
  kernel.id.layer = layer;
  for (std::int64_t b = 1; b <= shape.max_batch; ++b) {
    if (Draw(random, 0, 2) == 0) continue;
    const std::int64_t points = Draw(random, 0, shape.max_points_per_batch);
    for (std::int64_t i = 0; i < points; ++i) {
      // In this order with every compiler.
      const std::int64_t workspace = Draw(random, 0, shape.max_workspace);
      const std::int64_t time = Draw(random, 0, shape.max_time);
      const std::int64_t slope = Draw(random, 0, 2);
      const std::int64_t spread = Draw(random, 0, shape.max_spread);
      kernel.points.push_back(Point(b,
                                    std::string(1, static_cast<char>('A' + i)),
                                    workspace, time * (1 + b * slope), spread));
      if (shape.max_adding > 0) {
        kernel.points.back().adding =
            Nanoseconds(Draw(random, 0, shape.max_adding));
      }
    }
  }
  std::shuffle(kernel.points.begin(), kernel.points.end(), random);
  return kernel;
}

// The totals of one configuration.
struct Score {
  std::int64_t time = 0;
  std::int64_t count = 0;
  std::int64_t workspace = 0;
  std::int64_t spread = 0;
};

// Calls `visit(score)` for every point and every multiset of further ones whose
// batches sum to `batch`.
template <class Visit>
void ForEachConfiguration(const std::vector<MeasuredPoint>& points,
                          std::int64_t batch, BatchPolicy policy,
                          const Visit& visit) {
  const auto admitted = [&](const MeasuredPoint& p, std::int64_t rest) {
    const std::int64_t b = p.batch.count();
    if (b > rest) return false;
    if (b == batch || policy == BatchPolicy::kAll) return true;
    return policy == BatchPolicy::kPowerOfTwo && (b & (b - 1)) == 0;
  };
  const auto plus = [](const Score& score, const MeasuredPoint& p,
                       Nanoseconds time) {
    return Score{score.time + time.count(), score.count + 1,
                 std::max(score.workspace, p.workspace.count()),
                 score.spread + p.spread.count()};
  };
  const auto recurse = [&](const auto& self, std::size_t from,
                           std::int64_t rest, const Score& score) -> void {
    if (rest == 0) {
      visit(score);
      return;
    }
    for (std::size_t i = from; i < points.size(); ++i) {
      const MeasuredPoint& p = points[i];
      if (!admitted(p, rest)) continue;
      self(self, i, rest - p.batch.count(), plus(score, p, AddingTime(p)));
    }
  };
  for (const MeasuredPoint& first : points) {
    if (!admitted(first, batch)) continue;
    recurse(recurse, 0, batch - first.batch.count(),
            plus(Score{}, first, first.time));
  }
}

// The best configuration under `limit`: least time, then fewest micro-batches,
// then least workspace.
inline std::optional<Score> BestByEnumeration(
    const std::vector<MeasuredPoint>& points, std::int64_t batch,
    std::int64_t limit, BatchPolicy policy) {
  std::optional<Score> best;
  ForEachConfiguration(points, batch, policy, [&](const Score& score) {
    if (score.workspace > limit) return;
    if (!best.has_value() ||
        std::tie(score.time, score.count, score.workspace) <
            std::tie(best->time, best->count, best->workspace)) {
      best = score;
    }
  });
  return best;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SOLVER_INSTANCES_H_
