#ifndef UCUDNN_TESTS_BENCH_WR_ILP_H_
#define UCUDNN_TESTS_BENCH_WR_ILP_H_

// Workspace reuse as an integer programme for general solvers: the number of
// micro-batches of each size.
//
//   min  sum_b t_b x_b   where  sum_b b x_b = B,  x_b a whole number
//
// The programme has only the fastest fitting point of each size, the best that
// a caller could do.

#include <map>
#include <span>

#include "base/profile.h"
#include "solver/micro_batch/wr.h"
#include "tests/support/ilp_solver.h"

namespace ucudnn::bench {

inline IlpProblem WrAsIlp(std::span<const MeasuredPoint> points,
                          const WrRequest& request) {
  std::map<BatchSize, Nanoseconds> fastest;
  for (const MeasuredPoint& point : points) {
    if (point.batch > request.batch ||
        point.workspace > request.workspace_limit ||
        !PolicyAdmits(request.policy, point.batch, request.batch)) {
      continue;
    }
    const auto [at, fresh] = fastest.try_emplace(point.batch, point.time);
    if (!fresh && point.time < at->second) at->second = point.time;
  }
  const std::int64_t batch = request.batch.count();
  IlpProblem problem;
  problem.rows.push_back({{}, batch, batch});
  for (const auto& [size, time] : fastest) {
    problem.rows[0].terms.push_back({problem.variables.size(), size.count()});
    problem.variables.push_back({time.count(), 0, batch / size.count(), true});
  }
  return problem;
}

}  // namespace ucudnn::bench

#endif  // UCUDNN_TESTS_BENCH_WR_ILP_H_
