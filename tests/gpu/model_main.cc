// ucudnn_gpu_model: measures the device model of each GPU, else of the CPU,
// several times in a row, as ucudnn-agent does once. Prints one JSON object a
// measurement: the model, the device and the seconds it took.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/training/json.h"
#include "device/measure/device_model.h"
#include "device/open_devices.h"

namespace ucudnn {
namespace {

int Measure(Device& device, int times) {
  for (int i = 0; i < times; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const Result<DeviceModel> model =
        MeasureDeviceModel(device, DeviceModelOptions(), {});
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begun;
    if (!model) {
      std::fprintf(stderr, "%s: %s\n", device.info().id.c_str(),
                   model.error().message.c_str());
      return 1;
    }
    const nlohmann::ordered_json line = {
        {"device", device.info().id},
        {"driver", ConditionsOf(device.info())},
        {"seconds", took.count()},
        {"model", ToJson(*model)}};
    std::puts(line.dump().c_str());
  }
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures device models.");
  int times = 3;
  DeviceOptions options;
  app.add_option("--times", times, "Of each device")
      ->check(CLI::Range(1, 1000));
  app.add_option("--slice", options.gpu_slices,
                 "Slices of these numbers of multiprocessors, not whole GPUs")
      ->delimiter(',');
  app.add_option("--cpu-threads", options.cpu_threads, "Without a GPU");
  CLI11_PARSE(app, argc, argv);
  const auto devices = OpenDevices(options);
  if (!devices) {
    std::fprintf(stderr, "%s\n", devices.error().message.c_str());
    return 1;
  }
  int failed = 0;
  for (const auto& device : *devices) failed |= Measure(*device, times);
  return failed;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
