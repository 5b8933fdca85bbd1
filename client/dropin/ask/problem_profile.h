#ifndef UCUDNN_CLIENT_DROPIN_ASK_PROBLEM_PROFILE_H_
#define UCUDNN_CLIENT_DROPIN_ASK_PROBLEM_PROFILE_H_

#include <map>
#include <string_view>
#include <vector>

#include "base/measured_point.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// Others' measurements of a problem on a device kind.
struct KnownElsewhere {
  std::vector<MeasuredPoint> points;
  // The batch sizes at which every algorithm was measured, each up to this
  // workspace.
  std::map<BatchSize, Bytes> complete;
};

// Parses a ProblemProfile (/openapi.json) in JSON; unknown fields are ignored.
// kInvalidArgument, naming the field, if one that plans need is missing or a
// value is out of range.
Result<KnownElsewhere> ParseProblemProfile(std::string_view text);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_ASK_PROBLEM_PROFILE_H_
