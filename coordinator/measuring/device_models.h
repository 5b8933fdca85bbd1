#ifndef UCUDNN_COORDINATOR_MEASURING_DEVICE_MODELS_H_
#define UCUDNN_COORDINATOR_MEASURING_DEVICE_MODELS_H_

// Stored device models as messages.

#include <optional>
#include <string>

#include "base/result.h"
#include "coordinator/agents/agent_store.h"
#include "coordinator/measuring/measurement_store.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// Whether the model of the device's kind was measured under its driver.
Result<bool> HasDeviceModel(MeasurementStore& measurements,
                            const DeviceRecord& device);

// Stores the model as that of `kind`. kInvalidArgument, naming the field, if it
// is none.
Status PutDeviceModel(MeasurementStore& measurements, const std::string& kind,
                      const v1::MeasuredDeviceModel& measured);

// The kind's newest model; absent if there is none. kDataLoss if it cannot be
// read back.
Result<std::optional<v1::MeasuredDeviceModel>> NewestDeviceModel(
    MeasurementStore& measurements, const std::string& kind);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_DEVICE_MODELS_H_
