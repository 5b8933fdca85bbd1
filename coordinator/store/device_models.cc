// Device models.

#include "coordinator/store/measurements.h"
#include "coordinator/store/records.h"

namespace ucudnn {

Status Measurements::PutDeviceModel(const DeviceModelRecord& record) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the device model's kind", record.kind));
  if (!record.driver.empty()) {
    UCUDNN_RETURN_IF_ERROR(
        CheckKey("the device model's driver", record.driver));
  }
  return database_.Write([&](SqlTransaction& sql) -> Status {
    return sql.Execute(
        "INSERT INTO device_models "
        "(kind, driver, device, measured_ms, model, sequence) "
        "VALUES ($1, $2, $3, $4, $5, "
        "(SELECT COALESCE(MAX(sequence), 0) + 1 FROM device_models)) "
        "ON CONFLICT (kind, driver) DO UPDATE SET device = "
        "excluded.device, "
        "measured_ms = excluded.measured_ms, model = excluded.model, "
        "sequence = excluded.sequence",
        {record.kind, record.driver, record.device, record.measured_ms,
         SqlBytes{record.model}});
  });
}

Result<std::vector<DeviceModelRecord>> Measurements::ListDeviceModels(
    const std::string& kind) {
  return database_.Read([&](SqlTransaction& sql) {
    return Records(
        sql.Query("SELECT kind, driver, device, measured_ms, model FROM "
                  "device_models WHERE kind = $1 "
                  "ORDER BY sequence DESC",
                  {kind}),
        [](const SqlRow& row) -> Result<DeviceModelRecord> {
          return DeviceModelRecord{.kind = row.Text(0),
                                   .driver = row.Text(1),
                                   .device = row.Text(2),
                                   .measured_ms = row.Int(3),
                                   .model = row.Bytes(4)};
        });
  });
}

}  // namespace ucudnn
