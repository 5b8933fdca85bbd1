#ifndef UCUDNN_CLIENT_RANKS_DEVICE_MATCH_H_
#define UCUDNN_CLIENT_RANKS_DEVICE_MATCH_H_

// Chooses the device of each rank of a job. Ranks that did not request one are
// matched to GPUs so that no two share a GPU if that can be avoided. GPUs are
// identified by UUID: if the launcher shows each rank only a GPU of its own,
// two ranks' "GPU 0" differ. Pure functions.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ucudnn {

// The device that a rank requests.
struct DeviceRequest {
  enum class Kind { kAuto, kGpuOrdinal, kGpuUuid, kCpu };
  Kind kind = Kind::kAuto;
  int ordinal = 0;   // for kGpuOrdinal
  int threads = 0;   // for kCpu; 0: an even share of the host's cores
  std::string uuid;  // for kGpuUuid

  friend bool operator==(const DeviceRequest&, const DeviceRequest&) = default;
};

// Parses "auto", "gpu:1", "GPU-<uuid>", "MIG-<uuid>", "cpu" or "cpu:4".
// kInvalidArgument.
Result<DeviceRequest> ParseDeviceRequest(std::string_view text);

// The devices that a rank sees, and the one that it requests.
struct VisibleDevices {
  std::string host;
  DeviceRequest request;
  std::vector<std::string> gpus;  // UUIDs, by ordinal
  int current = -1;               // ordinal of the GPU in use already; -1: none
};

// The device that a rank gets.
struct DeviceChoice {
  int gpu = -1;         // an ordinal on this rank; -1: the CPU
  int cpu_devices = 1;  // the number of parts of the host's CPU
  int cpu_index = 0;    // the index of this rank's part
  int cpu_threads = 0;  // 0: an even share

  friend bool operator==(const DeviceChoice&, const DeviceChoice&) = default;
};

// One choice for each rank, deterministic. Ranks that already use a GPU keep
// it, requests are granted, and as many of the other ranks as possible are
// matched to free GPUs; the rest share the GPUs with the fewest ranks. A rank
// that sees no GPU gets a share of the CPU. kInvalidArgument, naming the rank,
// if it requests a GPU that it does not see.
Result<std::vector<DeviceChoice>> ChooseDevices(
    const std::vector<VisibleDevices>& ranks);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_RANKS_DEVICE_MATCH_H_
