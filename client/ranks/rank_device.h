#ifndef UCUDNN_CLIENT_RANKS_RANK_DEVICE_H_
#define UCUDNN_CLIENT_RANKS_RANK_DEVICE_H_

// Opens each rank's device: the one it requests, else a GPU of its own, else a
// part of its node's CPU (client/ranks/device_match.h).

#include <memory>
#include <string>

#include "base/result.h"
#include "client/ranks/device_match.h"
#include "client/ranks/ranks.h"
#include "device/device.h"

namespace ucudnn {

struct RankDeviceOptions {
  std::string device = "auto";  // see ParseDeviceRequest
  bool gpus = true;             // false: ignore GPUs
  int cpu_devices = 0;  // parts of a node's CPU; 0: as many as its ranks
  int threads = 0;      // per part; 0: an even share of the cores
};

struct RankDevice {
  std::string host;
  std::unique_ptr<Device> device;
};

// Collective. The options may differ between ranks, `cpu_devices` only between
// nodes. Either all ranks open their device, or all return the first error:
// those of OpenDevices and ChooseDevices, kUnavailable if MPI fails,
// kDeadlineExceeded if a rank does not take part in time.
Result<RankDevice> OpenRankDevice(Ranks& ranks,
                                  const RankDeviceOptions& options,
                                  Ranks::Deadline deadline);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_RANKS_RANK_DEVICE_H_
