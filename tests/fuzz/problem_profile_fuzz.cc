#include "client/dropin/ask/problem_profile.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// What is accepted is what a profile may hold.
UCUDNN_FUZZ(problem_profile, text) {
  const auto known = ParseProblemProfile(text);
  if (!known) return CheckError(known.error());
  for (const MeasuredPoint& point : known->points) {
    UCUDNN_CHECK(point.batch >= BatchSize(1));
    UCUDNN_CHECK(point.workspace >= Bytes(0));
    UCUDNN_CHECK(point.time.count() >= 0 && point.spread.count() >= 0);
  }
  for (const auto& [batch, workspace] : known->complete) {
    UCUDNN_CHECK(batch >= BatchSize(1) && workspace >= Bytes(0));
  }
}

}  // namespace ucudnn
