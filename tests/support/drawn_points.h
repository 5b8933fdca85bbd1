#ifndef UCUDNN_TESTS_SUPPORT_DRAWN_POINTS_H_
#define UCUDNN_TESTS_SUPPORT_DRAWN_POINTS_H_

// Measurements of whole networks of which none are recorded: times and
// workspaces follow from a convolution's size, and differ in their proportions
// from problem to problem.

#include <cstdint>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"

namespace ucudnn::test {

// Four algorithms at powers of two up to `most`.
inline std::vector<MeasuredPoint> DrawnPoints(const ConvProblem& problem,
                                              std::int64_t most) {
  std::int64_t draw = 17;
  for (const char c : ToString(problem)) draw = (draw * 31 + c) % 9973;
  const std::int64_t work = problem.geometry.multiply_adds() / 40'000;
  std::vector<MeasuredPoint> points;
  for (std::int64_t batch = 1; batch <= most; batch *= 2) {
    const std::int64_t gemm = 500 + work * batch;
    const auto add = [&](const char* name, std::int64_t workspace,
                         std::int64_t percent) {
      points.push_back({BatchSize(batch),
                        {name, "FMA", Precision::kFp32},
                        Bytes(workspace),
                        Nanoseconds(300 + gemm * percent / 100),
                        Nanoseconds(0),
                        1});
    };
    add("GEMM", 0, 100);
    add("PRECOMP", 13'056 * (1 + draw % 7), 90 - draw % 5);
    add("WINOGRAD", 40'000 * batch + 1000 * (draw % 97), 45 + draw % 20);
    add("FFT", 9'000'000 / 16 + 150'000 * batch + 777 * (draw % 89),
        20 + draw % 17);
  }
  return points;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_DRAWN_POINTS_H_
