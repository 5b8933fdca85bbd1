#ifndef UCUDNN_PROTO_CONVERT_H_
#define UCUDNN_PROTO_CONVERT_H_

// Conversions between the messages of ucudnn.v1 and the types of base/: what
// is measured, and on what. Plans: convert_plan.h.
// Messages from the wire are checked: kInvalidArgument names the field.

#include <vector>

#include "base/device_kind.h"
#include "base/network.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/training/device_model.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn {

v1::Layer ToProto(const ConvLayer& layer);
Result<ConvLayer> FromProto(const v1::Layer& layer);

Result<Network> FromProto(const v1::Network& network);

v1::DeviceKind ToProto(const DeviceKind& kind);
DeviceKind FromProto(const v1::DeviceKind& kind);

v1::DeviceClocks ToProto(const DeviceClocks& clocks);
DeviceClocks FromProto(const v1::DeviceClocks& clocks);

// The point of a measurement, and its origin, which only whole profiles have.
v1::Measurement ToProto(const MeasuredPoint& point);
v1::Measurement ToProto(const MeasuredPoint& point, const PointOrigin& origin);
Result<MeasuredPoint> FromProto(const v1::Measurement& measurement);
PointOrigin OriginOf(const v1::Measurement& measurement);

// A profile by problem, one message for each device kind. Of kernels with the
// same problem only the first counts; kernels without a problem are left out.
std::vector<v1::Profile> ToProto(const Profile& profile);
// Each problem as a layer, named like it, of the network "measured".
Result<Profile> FromProto(const v1::Profile& profile);

// A device model is what its JSON is (base/training/json.h).
v1::DeviceModel ToProto(const DeviceModel& model);
Result<DeviceModel> FromProto(const v1::DeviceModel& model);

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_CONVERT_H_
