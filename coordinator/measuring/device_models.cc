#include "coordinator/measuring/device_models.h"

#include <algorithm>

#include "proto/convert.h"

namespace ucudnn {

Result<bool> HasDeviceModel(Measurements& measurements,
                            const DeviceRecord& device) {
  UCUDNN_ASSIGN_OR_RETURN(const auto records,
                          measurements.ListDeviceModels(ToString(device.kind)));
  return std::ranges::any_of(records, [&](const DeviceModelRecord& record) {
    return record.driver == device.driver;
  });
}

Status PutDeviceModel(Measurements& measurements, const std::string& kind,
                      const v1::MeasuredDeviceModel& measured) {
  Result<DeviceModel> model = FromProto(measured.model());
  if (!model) return Within("device_model", std::move(model).error());
  model->name = kind;
  return measurements.PutDeviceModel(
      {.kind = kind,
       .driver = measured.driver(),
       .device = measured.device(),
       .measured_ms = measured.measured_ms(),
       .model = ToProto(*model).SerializeAsString()});
}

Result<std::optional<v1::MeasuredDeviceModel>> NewestDeviceModel(
    Measurements& measurements, const std::string& kind) {
  UCUDNN_ASSIGN_OR_RETURN(const auto records,
                          measurements.ListDeviceModels(kind));
  if (records.empty()) return std::nullopt;
  const DeviceModelRecord& newest = records.front();
  v1::MeasuredDeviceModel measured;
  if (!measured.mutable_model()->ParseFromString(newest.model)) {
    return Fail(Code::kDataLoss,
                "the stored device model of {} cannot be read back", kind);
  }
  measured.set_device(newest.device);
  measured.set_driver(newest.driver);
  measured.set_measured_ms(newest.measured_ms);
  return measured;
}

}  // namespace ucudnn
