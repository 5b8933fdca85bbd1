#ifndef UCUDNN_DEVICE_MEASURE_DEVICE_MODEL_H_
#define UCUDNN_DEVICE_MEASURE_DEVICE_MODEL_H_

// Measures what memory plans assume about a device
// (base/training/device_model.h):
//
//   memory rate       Device::Scale over values that no cache holds
//   launch            Device::Scale of few values, one after the other
//   arithmetic rate   the fastest of the device's first suggestions for a 1x1
//                     convolution, which is a matrix product; and under load
//   link              copies of host memory, each way alone and both at once
//
// Rates have four digits: repeats differ by more.

#include <cstdint>
#include <stop_token>

#include "base/result.h"
#include "base/training/device_model.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

struct DeviceModelOptions {
  int repeats = 3;  // the fastest counts
  // Of each copy; half of what Scale works on if that is less.
  Bytes copy = 64_MiB;
  // The convolution has as many filters as channels and 7x7 maps.
  std::int64_t channels = 1024;
  BatchSize max_batch{512};
  // How long the convolution keeps the device busy in each precision for the
  // rate under load; 0: that stays unknown.
  Nanoseconds load{0};
};

// The device's model, named like its kind. A precision that the device does not
// support has FP32's rate. Takes about a second, apart from `load`, and up to
// 512 MiB of the device's memory, at most 1/32 of it, besides 128 MiB of the
// host's. kCancelled once `stop` is requested (between measurements); the
// device's errors.
Result<DeviceModel> MeasureDeviceModel(Device& device,
                                       const DeviceModelOptions& options,
                                       const std::stop_token& stop);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_MEASURE_DEVICE_MODEL_H_
