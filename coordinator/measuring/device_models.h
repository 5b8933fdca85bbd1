#ifndef UCUDNN_COORDINATOR_MEASURING_DEVICE_MODELS_H_
#define UCUDNN_COORDINATOR_MEASURING_DEVICE_MODELS_H_

// Device models, as they are stored and as messages.

#include <optional>
#include <string>

#include "base/result.h"
#include "base/training/device_model.h"
#include "coordinator/agents/agent_store.h"
#include "coordinator/measuring/measurement_store.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// Whether the model of the device's kind was measured under its driver.
Result<bool> HasDeviceModel(MeasurementStore& measurements,
                            const DeviceRecord& device);

struct MeasuredModel {
  DeviceModel model;
  std::string device;
  std::string driver;
  UnixMillis measured_ms = 0;
};
v1::MeasuredDeviceModel ToProto(const MeasuredModel& measured);
// kInvalidArgument, naming the field, if it is none.
Result<MeasuredModel> FromProto(const v1::MeasuredDeviceModel& message);

// Stores the model as that of `kind`, whose name it gets.
Status PutDeviceModel(MeasurementStore& measurements, const std::string& kind,
                      MeasuredModel measured);

// The kind's newest model; absent if there is none. kDataLoss if it cannot be
// read back.
Result<std::optional<MeasuredModel>> NewestDeviceModel(
    MeasurementStore& measurements, const std::string& kind);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_DEVICE_MODELS_H_
