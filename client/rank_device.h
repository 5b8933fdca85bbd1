#ifndef UCUDNN_CLIENT_RANK_DEVICE_H_
#define UCUDNN_CLIENT_RANK_DEVICE_H_

// Which device each rank of a job works on: the GPUs of its node by local
// rank, in turn; on a node without a GPU a part of the CPU.

#include <memory>
#include <string>

#include "base/result.h"
#include "client/ranks.h"
#include "device/device.h"

namespace ucudnn {

struct RankDeviceOptions {
  bool gpus = true;     // false: as if there were none
  int cpu_devices = 0;  // parts of a node's CPU; 0: as many as its ranks
  int threads = 0;      // of each; 0: an even share of the cores
};

struct RankDevice {
  std::string host;
  std::unique_ptr<Device> device;
};

// Collective over MPI_COMM_WORLD, which `ranks` is of; only `gpus` may differ
// between the ranks of different nodes, and `threads` anywhere. All ranks have
// their device or all return the first error: those of OpenDevices,
// kUnavailable if MPI fails, kDeadlineExceeded if not all take part in time.
Result<RankDevice> OpenRankDevice(Ranks& ranks,
                                  const RankDeviceOptions& options,
                                  Ranks::Deadline deadline);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_RANK_DEVICE_H_
