#include <algorithm>
#include <string>
#include <vector>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/check/memory_plan.h"
#include "solver/memory/policies.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/instance.h"
#include "tests/support/paper_networks.h"

namespace ucudnn {
namespace {

// A network of up to 12 nodes over images of 8 x 8, with branches wherever the
// bytes say so.
Graph AnyNetwork(FuzzBytes& bytes) {
  test::NetworkBuilder n("net", 1 + bytes.Byte() % 6);
  std::vector<test::NetworkBuilder::Value> values = {n.Input(2, 8)};
  const auto pick = [&] {
    return values[static_cast<std::size_t>(bytes.Byte()) % values.size()];
  };
  // Every value has two channels of 8 x 8, so that any two can be added.
  for (std::int64_t i = 1 + bytes.Byte() % 12; i > 0; --i) {
    const std::string name = "n" + std::to_string(i);
    switch (bytes.Byte() % 8) {
      case 0:
      case 1:
        values.push_back(n.Conv(name, pick(), 2, 3));
        break;
      case 2:
        values.push_back(n.Relu(name, pick()));
        break;
      case 3:
        values.push_back(n.BatchNorm(name, pick()));
        break;
      case 4:
        values.push_back(n.Pool(name, pick(), 3, 1, 1));
        break;
      case 5:
        values.push_back(n.Same(name, "Add", {pick(), pick()}));
        break;
      case 6:
        values.push_back(n.Same(name, "Dropout", {pick()}));
        break;
      default:
        values.push_back(
            n.Conv(name, n.Concat(name + ".all", {pick(), pick()}), 2, 1));
        break;
    }
  }
  return n.Finish();
}

}  // namespace

// Every policy gives a plan that an independent check accepts, or an error.
UCUDNN_FUZZ(memory, text) {
  FuzzBytes bytes(text);
  TrainingOptions options;
  options.fusion = bytes.Byte() % 2 == 0 ? Fusion::kNone : Fusion::kPaper;
  Result<TrainingGraph> graph = BuildTrainingGraph(AnyNetwork(bytes), options);
  if (!graph) return CheckError(graph.error());
  DeviceModel device = *DeviceModelPreset("K40");
  device.duplex = bytes.Byte() % 2 == 0;
  device.d2h_rate = static_cast<double>(1 + bytes.Byte());
  device.h2d_rate = static_cast<double>(1 + bytes.Byte());
  device.algorithms = {{"WINOGRAD_NONFUSED", 2.0}};
  UCUDNN_CHECK(SetDevice(device, &*graph).has_value());
  MemoryRequest request;
  request.budget = Bytes(1024 * (1 + bytes.Byte()));
  if (bytes.Byte() % 2 == 0) request.allocator = MemoryAllocator::kStatic;
  if (bytes.Byte() % 4 == 0) {
    request.sub_batch = BatchSize(1 + bytes.Byte() % 6);
  }
  const std::vector<MemoryPolicy>& policies = MemoryPolicies();
  const MemoryPolicy& policy =
      policies[static_cast<std::size_t>(bytes.Byte()) % policies.size()];
  const Result<MemoryPlan> plan = PlanMemory(*graph, request, policy);
  if (!plan) return CheckError(plan.error());
  const Status valid = ValidateMemoryPlan(*plan, *graph);
  UCUDNN_CHECK(valid.has_value());
  UCUDNN_CHECK(plan->peak <= request.budget);
}

}  // namespace ucudnn
