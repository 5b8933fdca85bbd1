#ifndef UCUDNN_CLIENT_DROPIN_WIRE_PROFILE_WIRE_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_PROFILE_WIRE_H_

// The two messages of GetProblemProfile (proto/ucudnn/v1) as bytes, without
// protobuf's library, which has no place in a stranger's process.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// What somebody else knows of a problem on a kind of device.
struct KnownElsewhere {
  std::vector<MeasuredPoint> points;
  // Of which batches every algorithm was measured, up to this workspace.
  std::map<BatchSize, Bytes> complete;
};

// A GetProblemProfileRequest.
std::string EncodeProfileRequest(std::string_view kind,
                                 const ConvProblem& problem);

// A ProblemProfile; fields that are not known are skipped. kInvalidArgument if
// the bytes are no such message, or a value is out of range.
Result<KnownElsewhere> DecodeProblemProfile(std::string_view bytes);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_PROFILE_WIRE_H_
