#include <nlohmann/json.hpp>

#include "base/training/json.h"
#include "base/training/task_times.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// What is read as a device model is valid and is written as what reads back;
// the same bytes as times of tasks are read or refused.
UCUDNN_FUZZ(device_model, text) {
  const auto times = ParseTaskTimesCsv(text, {}, "times");
  if (!times) CheckError(times.error());
  const Result<DeviceModel> model = ParseDeviceModel(text, "model");
  if (!model) return CheckError(model.error());
  UCUDNN_CHECK(Validate(*model).has_value());
  const Result<DeviceModel> again =
      ParseDeviceModel(ToJson(*model).dump(), "model");
  UCUDNN_CHECK(again.has_value());
  UCUDNN_CHECK(again->name == model->name);
  UCUDNN_CHECK(again->duplex == model->duplex);
  UCUDNN_CHECK(again->memory == model->memory);
}

}  // namespace ucudnn
