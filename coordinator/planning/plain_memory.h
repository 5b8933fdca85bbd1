#ifndef UCUDNN_COORDINATOR_PLANNING_PLAIN_MEMORY_H_
#define UCUDNN_COORDINATOR_PLANNING_PLAIN_MEMORY_H_

// What a whole iteration needs on a device that nothing leaves: it bounds the
// shares of plans without memory plans.
//
//   need(b) = max over tasks of the blocks that are live + the plan's workspace
//
// No execution that keeps everything in memory needs less.

#include <map>
#include <string>
#include <vector>

#include "base/plan/job_plan.h"
#include "base/training/device_model.h"
#include "base/training/graph.h"
#include "base/units.h"
#include "coordinator/networks/network_store.h"

namespace ucudnn {

struct PlainMemory {
  // Of each kind's devices, as far as it is known.
  std::map<std::string, Bytes> devices;
  // By batch, from 0 to the request's: of the blocks that are live at once.
  // Empty if the network has no training graph.
  std::vector<Bytes> live;
  // Why memory bounds the shares of none, or only of some kinds; empty if it
  // bounds all.
  std::string unknown;
};

// `models` are those that are known of the request's kinds, by kind. Networks
// known by their convolutions alone have no training graph, nor have models
// with operators that base/training/build.h does not know.
// O(nodes, tasks * batch).
PlainMemory PlainMemoryOf(const NetworkRecord& network,
                          const JobRequest& request,
                          const std::map<std::string, DeviceModel>& models);

// The most bytes of blocks that are live at once during an iteration without
// sub-batches, from each block's first use to its last, by batch up to `most`.
// O(tasks * batch, blocks * tasks).
std::vector<Bytes> LiveBytes(const TrainingGraph& graph, BatchSize most);

// What plans depend on besides InputsText; empty where memory is not known.
std::string PlainInputsText(const PlainMemory& memory,
                            const NetworkRecord& network);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_PLAIN_MEMORY_H_
