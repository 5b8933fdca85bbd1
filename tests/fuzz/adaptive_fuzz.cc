#include <algorithm>

#include "solver/micro_batch/adaptive.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/instance.h"

namespace ucudnn {

// What is to be measured next are choices, or points that were only looked at,
// each once, and what is in use was measured, or there is an error.
UCUDNN_FUZZ(adaptive, text) {
  FuzzBytes bytes(text);
  AdaptiveRequest request;
  request.batch = BatchSize(std::min<std::int64_t>(bytes.Number(), 300));
  for (std::int64_t n = bytes.Byte() % 4; n > 0; --n) {
    request.limits.emplace_back(bytes.Number());
  }
  if (request.batch >= BatchSize(1)) {
    for (const BatchSize batch : SizesToAsk(request.batch)) {
      UCUDNN_CHECK(batch >= BatchSize(1) && batch <= request.batch);
    }
  }
  std::vector<SizedAlgorithm> choices;
  for (const MeasuredPoint& point : FuzzKernel(bytes, 0).points) {
    choices.push_back({point.batch, point.algorithm, point.workspace});
  }
  const std::vector<MeasuredPoint> measured = FuzzKernel(bytes, 1).points;
  const auto next = NextToMeasure(choices, measured, request);
  if (!next) {
    CheckError(next.error());
  } else {
    for (const SizedAlgorithm& chosen : *next) {
      UCUDNN_CHECK(std::count(choices.begin(), choices.end(), chosen) > 0 ||
                   std::any_of(measured.begin(), measured.end(),
                               [&](const MeasuredPoint& point) {
                                 return point.batch == chosen.batch &&
                                        point.algorithm == chosen.algorithm &&
                                        point.workspace == chosen.workspace &&
                                        point.repeats < request.settled_repeats;
                               }));
      UCUDNN_CHECK(std::count(next->begin(), next->end(), chosen) == 1);
    }
  }
  const auto used = PointsInUse(measured, request);
  if (!used) return CheckError(used.error());
  for (const SizedAlgorithm& one : *used) {
    UCUDNN_CHECK(std::any_of(
        measured.begin(), measured.end(), [&](const MeasuredPoint& point) {
          return point.batch == one.batch && point.algorithm == one.algorithm &&
                 point.workspace == one.workspace;
        }));
  }
}

}  // namespace ucudnn
