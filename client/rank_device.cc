#include "client/rank_device.h"

#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "device/registry.h"

namespace ucudnn {
namespace {

using Devices = std::vector<std::unique_ptr<Device>>;

// Where a rank stands among those of its node.
struct Place {
  int rank = 0;
  int size = 1;
  std::string host;
};

Result<Place> FindPlace() {
  MPI_Comm node = MPI_COMM_NULL;
  if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                          MPI_INFO_NULL, &node) != MPI_SUCCESS) {
    return Fail(Code::kUnavailable, "MPI_Comm_split_type failed");
  }
  Place place;
  MPI_Comm_rank(node, &place.rank);
  MPI_Comm_size(node, &place.size);
  MPI_Comm_free(&node);
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) place.host = host.data();
  return place;
}

// All ranks go on, or all of them return the first error.
Status Together(Ranks& ranks, const Status& mine, Ranks::Deadline deadline) {
  UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks.AllOf(mine, deadline));
  return all;
}

template <class T>
Status StatusOf(const Result<T>& result) {
  if (result) return {};
  return tl::unexpected<Error>(result.error());
}

}  // namespace

Result<RankDevice> OpenRankDevice(Ranks& ranks,
                                  const RankDeviceOptions& options,
                                  Ranks::Deadline deadline) {
  const Result<Place> place = FindPlace();
  UCUDNN_RETURN_IF_ERROR(Together(ranks, StatusOf(place), deadline));
  DeviceOptions devices;
  devices.gpus = options.gpus;
  devices.cpu_devices = 0;
  // Only the first rank of a node opens all GPUs, to count them.
  Devices opened;
  Status status;
  if (place->rank == 0) {
    auto all = OpenDevices(devices);
    if (all) {
      opened = *std::move(all);
    } else if (all.error().code != Code::kUnavailable) {
      status = tl::unexpected<Error>(std::move(all).error());
    }
  }
  UCUDNN_RETURN_IF_ERROR(Together(ranks, status, deadline));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> hosts,
                          ranks.AllGather(place->host, deadline));
  UCUDNN_ASSIGN_OR_RETURN(
      const std::vector<std::string> counts,
      ranks.AllGather(place->rank == 0 ? std::to_string(opened.size()) : "",
                      deadline));
  int count = 0;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    if (hosts[r] == place->host && !counts[r].empty()) {
      count = std::stoi(counts[r]);
    }
  }
  Result<Devices> mine = Devices();
  std::size_t index = 0;
  if (place->rank == 0 && count > 0) {
    mine = std::move(opened);
  } else if (count > 0) {
    devices.gpu_ordinals = {place->rank % count};
    mine = OpenDevices(devices);
  } else {
    devices.gpus = false;
    devices.cpu_devices =
        options.cpu_devices > 0 ? options.cpu_devices : place->size;
    devices.cpu_threads = options.threads;
    index = static_cast<std::size_t>(place->rank % devices.cpu_devices);
    mine = OpenDevices(devices);
  }
  UCUDNN_RETURN_IF_ERROR(Together(ranks, StatusOf(mine), deadline));
  return RankDevice{place->host, std::move((*mine)[index])};
}

}  // namespace ucudnn
