#ifndef UCUDNN_PROTO_CONVERT_H_
#define UCUDNN_PROTO_CONVERT_H_

// Between the messages of ucudnn.v1 and the vocabulary of base/. What comes
// from the wire is checked: kInvalidArgument names the field.

#include <string>

#include "base/network.h"
#include "base/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn {

v1::Layer ToProto(const ConvLayer& layer);
Result<ConvLayer> FromProto(const v1::Layer& layer);

v1::Measurement ToProto(const MeasuredPoint& point);
Result<MeasuredPoint> FromProto(const v1::Measurement& measurement);

v1::WorkspacePlan ToProto(const WorkspacePlan& plan);
Result<WorkspacePlan> FromProto(const v1::WorkspacePlan& plan);

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_CONVERT_H_
