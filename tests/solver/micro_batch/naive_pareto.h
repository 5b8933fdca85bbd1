#ifndef UCUDNN_TESTS_SOLVER_MICRO_BATCH_NAIVE_PARETO_H_
#define UCUDNN_TESTS_SOLVER_MICRO_BATCH_NAIVE_PARETO_H_

// The recurrence of mu-cuDNN (CLUSTER 2018, III-C.1) as the paper states it:
// C(b) from every micro-batch size, every micro-configuration and every
// configuration of the rest. The reference for solver/micro_batch/pareto.h.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "solver/micro_batch/pareto.h"

namespace ucudnn::test {

// D of the paper, one element at a time: an insertion that keeps the set free
// of dominated configurations, by rising workspace.
inline void InsertDesirable(const FrontPoint& c, std::vector<FrontPoint>* set) {
  auto at = std::lower_bound(set->begin(), set->end(), c,
                             [](const FrontPoint& a, const FrontPoint& b) {
                               return a.workspace < b.workspace;
                             });
  if (at != set->begin() && std::prev(at)->time <= c.time) return;
  if (at != set->end() && at->workspace == c.workspace && at->time <= c.time) {
    return;
  }
  auto end = at;
  while (end != set->end() && end->time >= c.time) ++end;
  at = set->erase(at, end);
  set->insert(at, c);
}

// C of every batch size from the micro-configurations of each; `rest` is what
// the other images take, or null if it is C itself.
inline std::vector<std::vector<FrontPoint>> NaiveFronts(
    const std::vector<std::vector<FrontPoint>>& micro,
    const std::vector<std::vector<FrontPoint>>* rest) {
  std::vector<std::vector<FrontPoint>> desirable(micro.size());
  desirable[0].push_back({Nanoseconds(0), Bytes(0)});
  for (std::size_t b = 1; b < micro.size(); ++b) {
    for (std::size_t bm = 1; bm <= b; ++bm) {
      for (const FrontPoint& cm : micro[bm]) {
        for (const FrontPoint& c : (rest ? *rest : desirable)[b - bm]) {
          InsertDesirable(
              {cm.time + c.time, std::max(cm.workspace, c.workspace)},
              &desirable[b]);
        }
      }
    }
  }
  return desirable;
}

inline std::vector<FrontPoint> NaiveFront(std::span<const MeasuredPoint> points,
                                          const WrRequest& request) {
  const auto size = static_cast<std::size_t>(request.batch.count()) + 1;
  std::vector<std::vector<FrontPoint>> writing(size);
  std::vector<std::vector<FrontPoint>> adding(size);
  for (const MeasuredPoint& p : points) {
    if (p.workspace <= request.workspace_limit &&
        PolicyAdmits(request.policy, p.batch, request.batch)) {
      const auto b = static_cast<std::size_t>(p.batch.count());
      writing[b].push_back({p.time, p.workspace});
      adding[b].push_back({AddingTime(p), p.workspace});
    }
  }
  const auto rest = NaiveFronts(adding, nullptr);
  return writing == adding ? rest.back() : NaiveFronts(writing, &rest).back();
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SOLVER_MICRO_BATCH_NAIVE_PARETO_H_
