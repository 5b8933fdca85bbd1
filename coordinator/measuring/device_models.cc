#include "coordinator/measuring/device_models.h"

#include <algorithm>
#include <utility>

#include "proto/convert.h"

namespace ucudnn {

Result<bool> HasDeviceModel(MeasurementStore& measurements,
                            const DeviceRecord& device) {
  UCUDNN_ASSIGN_OR_RETURN(const auto records,
                          measurements.ListDeviceModels(ToString(device.kind)));
  return std::ranges::any_of(records, [&](const DeviceModelRecord& record) {
    return record.driver == device.driver;
  });
}

v1::MeasuredDeviceModel ToProto(const MeasuredModel& measured) {
  v1::MeasuredDeviceModel message;
  *message.mutable_model() = ToProto(measured.model);
  message.set_device(measured.device);
  message.set_driver(measured.driver);
  message.set_measured_ms(measured.measured_ms);
  return message;
}

Result<MeasuredModel> FromProto(const v1::MeasuredDeviceModel& message) {
  Result<DeviceModel> model = FromProto(message.model());
  if (!model) return Within("device_model", std::move(model).error());
  return MeasuredModel{.model = *std::move(model),
                       .device = message.device(),
                       .driver = message.driver(),
                       .measured_ms = message.measured_ms()};
}

Status PutDeviceModel(MeasurementStore& measurements, const std::string& kind,
                      MeasuredModel measured) {
  measured.model.name = kind;
  return measurements.PutDeviceModel(
      {.kind = kind,
       .driver = measured.driver,
       .device = measured.device,
       .measured_ms = measured.measured_ms,
       .model = ToProto(measured.model).SerializeAsString()});
}

Result<std::optional<MeasuredModel>> NewestDeviceModel(
    MeasurementStore& measurements, const std::string& kind) {
  UCUDNN_ASSIGN_OR_RETURN(const auto records,
                          measurements.ListDeviceModels(kind));
  if (records.empty()) return std::nullopt;
  const DeviceModelRecord& newest = records.front();
  v1::DeviceModel stored;
  const bool parsed = stored.ParseFromString(newest.model);
  const Result<DeviceModel> model = FromProto(stored);
  if (!parsed || !model) {
    return Fail(Code::kDataLoss,
                "the stored device model of {} cannot be read back", kind);
  }
  return MeasuredModel{.model = *model,
                       .device = newest.device,
                       .driver = newest.driver,
                       .measured_ms = newest.measured_ms};
}

}  // namespace ucudnn
