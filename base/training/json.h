#ifndef UCUDNN_BASE_TRAINING_JSON_H_
#define UCUDNN_BASE_TRAINING_JSON_H_

// Training graphs, memory plans and device models as JSON. Bytes are integers,
// times numbers of microseconds, exact to the nanosecond.

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/training/device_model.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"

namespace ucudnn {

// The graph with every task's costs on these batches:
//   {"network":…,"precision":…,"batch":…,
//    "device":{"name":…,"memory_bytes":…,"d2h_bytes_per_us":…,
//     "h2d_bytes_per_us":…,"transfer_latency_us":…,"duplex":…},
//    "blocks":[{"name":…,"kind":…,"bytes":…,"bytes_per_image":…,
//     "persistent":true}],
//    "tasks":[{"name":…,"kind":…,"layer":…,"reads":[…],"writes":[…],
//     "recomputable":true,"costs":[{"batch":…,"algorithm":…,
//     "workspace_bytes":…,"time_us":…}]}]}
// A cost without a batch holds for any batch.
nlohmann::ordered_json ToJson(const TrainingGraph& graph,
                              const std::vector<BatchSize>& batches);

// The batches that a plan's tasks run on, and the mini-batch; ascending.
std::vector<BatchSize> BatchesOf(const MemoryPlan& plan, BatchSize batch);

// The plan; its blocks and tasks are named as in `graph`.
nlohmann::ordered_json ToJson(const MemoryPlan& plan,
                              const TrainingGraph& graph);

// The plan in the Trace Event Format of Chrome and Perfetto: tasks and
// transfers as bars, a row for each stream, a counter of live bytes, and arrows
// where one stream waits for another.
nlohmann::ordered_json ChromeTrace(const MemoryPlan& plan,
                                   const TrainingGraph& graph);

// A device model:
//   {"name":"GTX970","memory_bytes":3500000000,"arithmetic_tflops":2.47,
//    "memory_gb_per_s":100,"launch_us":10,"d2h_gb_per_s":12.8,
//    "h2d_gb_per_s":12.8,"transfer_latency_us":0,"duplex":true,
//    "algorithms":[{"name":"WINOGRAD_NONFUSED","speedup":1.8}]}
// The arithmetic is one number, or {"FP32":47,"TF32":350,"half":790}. The
// latency, the launch, duplex and the algorithms may be left out.
nlohmann::ordered_json ToJson(const DeviceModel& model);
// kInvalidArgument, naming the field, its value and what is accepted. `json` is
// an object.
Result<DeviceModel> DeviceModelOf(const nlohmann::ordered_json& json);
// The same from text; errors also name `source`.
Result<DeviceModel> ParseDeviceModel(std::string_view text,
                                     std::string_view source);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_JSON_H_
