#ifndef UCUDNN_TESTS_CLIENT_TINY_NETWORK_H_
#define UCUDNN_TESTS_CLIENT_TINY_NETWORK_H_

// Two layers, five kernels, and plans for them on fake devices
// (tests/support/fake_device.h).

#include <utility>
#include <vector>

#include "base/network.h"
#include "base/plan/job_plan.h"
#include "device/device.h"

namespace ucudnn {

inline Network TinyNetwork() {
  Network network;
  network.name = "tiny";
  network.layers.resize(2);
  network.layers[0].name = "conv1";
  network.layers[0].needs_input_gradient = false;
  network.layers[1].name = "conv2";
  for (ConvLayer& layer : network.layers) {
    layer.geometry.channels = 3;
    layer.geometry.filters = 3;
    layer.geometry.input = {1, 8, 8};
    layer.geometry.filter = {1, 3, 3};
    layer.geometry.padding = {0, 1, 1};
  }
  return network;
}

inline JobRequest TinyRequest(BatchSize batch, std::vector<std::string> kinds) {
  JobRequest request;
  request.network = "tiny";
  request.batch = batch;
  request.device_kinds = std::move(kinds);
  request.workspace_limit = 64_MiB;
  return request;
}

// A coordinator's answer: rank r has shares[r] images, in micro-batches of at
// most two by "lavish", which needs 100 bytes per image.
inline JobPlan TinyPlan(const JobRequest& request,
                        const std::vector<std::int64_t>& shares) {
  JobPlan plan;
  plan.id = 7;
  plan.revision = 1;
  plan.request = request;
  plan.predicted = Nanoseconds(5000);
  for (std::size_t r = 0; r < shares.size(); ++r) {
    RankPlan rank;
    rank.device_kind = request.device_kinds[r];
    rank.batch = BatchSize(shares[r]);
    rank.weight = static_cast<double>(shares[r]) /
                  static_cast<double>(request.batch.count());
    WorkspacePlan& workspace = rank.workspace.Own();
    workspace.batch = rank.batch;
    workspace.workspace_limit = request.workspace_limit;
    const Algorithm lavish = {"lavish", "", Precision::kFp32};
    for (const Kernel& kernel :
         KernelsOf(TinyNetwork(), request.precision, request.layout)) {
      if (shares[r] == 0) break;
      KernelPlan planned;
      planned.layer = kernel.layer;
      planned.op = kernel.op;
      planned.problem = kernel.problem;
      const std::int64_t pairs = shares[r] / 2;
      if (pairs > 0) {
        planned.micro_batches.push_back(
            {BatchSize(2), pairs, lavish, Nanoseconds(500), 200_B});
      }
      if (shares[r] % 2 == 1) {
        planned.micro_batches.push_back(
            {BatchSize(1), 1, lavish, Nanoseconds(300), 100_B});
      }
      planned.workspace = planned.micro_batches[0].workspace;
      workspace.kernels.push_back(planned);
    }
    plan.ranks.push_back(rank);
  }
  return plan;
}

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_CLIENT_TINY_NETWORK_H_
