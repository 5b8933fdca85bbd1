#ifndef UCUDNN_CLIENT_DROPIN_WIRE_PROFILE_WIRE_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_PROFILE_WIRE_H_

// Encodes and decodes the two messages of GetProblemProfile (proto/ucudnn/v1)
// without the protobuf library, which must not be loaded into a user's process.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
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

// Encodes a GetProblemProfileRequest.
std::string EncodeProfileRequest(std::string_view kind,
                                 const ConvProblem& problem);

// Decodes a ProblemProfile; unknown fields are skipped. kInvalidArgument if the
// bytes are malformed or a value is out of range.
Result<KnownElsewhere> DecodeProblemProfile(std::string_view bytes);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_PROFILE_WIRE_H_
