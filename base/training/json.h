#ifndef UCUDNN_BASE_TRAINING_JSON_H_
#define UCUDNN_BASE_TRAINING_JSON_H_

// Training graphs, memory plans and device models as JSON. Bytes are integers,
// times numbers of microseconds, exact to the nanosecond.

#include <nlohmann/json_fwd.hpp>
#include <string>
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
//     "operator":…,"recomputable":true,"problem":…,"costs":[{"batch":…,
//     "algorithm":…,"workspace_bytes":…,"time_us":…}]}]}
// A cost without a batch holds for any batch. `problem` tells which convolution
// a task is (base/conv_problem.h).
nlohmann::ordered_json ToJson(const TrainingGraph& graph,
                              const std::vector<BatchSize>& batches);

// Reads what ToJson writes. Costs become measurements, and nothing but the link
// is known of the device: tasks have no cost on other batches. Unknown fields
// are ignored, and null counts as absent. May be left out: a task's `layer`
// (then the part of its name before the last '.'), `operator`, `problem` and
// `recomputable`, `bytes`, `bytes_per_image` (0) and `persistent` of a block,
// the device's name, memory, latency (0) and duplex (true). kInvalidArgument,
// naming the field by its path, the value and what is accepted: also for a
// block, a task or a cost that comes twice, and for sizes that add up to more
// than 2^62 bytes at the mini-batch. `path` is that of `json`; empty at the
// top.
Result<TrainingGraph> TrainingGraphOf(const nlohmann::ordered_json& json,
                                      std::string path);
// The same from text; errors also name `source`.
Result<TrainingGraph> ParseTrainingGraph(std::string_view text,
                                         std::string_view source);

// The batches that tasks were measured on, and the mini-batch; ascending. With
// their costs a graph plans as it did here.
std::vector<BatchSize> MeasuredBatchesOf(const TrainingGraph& graph);

// The batches that a plan's tasks run on, and the mini-batch; ascending.
std::vector<BatchSize> BatchesOf(const MemoryPlan& plan, BatchSize batch);

// The plan; its blocks and tasks are named as in `graph`. Times are exact to
// the nanosecond up to 2^51 ns (26 days). `start_us` + `dur_us`, added in
// double precision, never exceeds the `start_us` of what starts at that time.
nlohmann::ordered_json ToJson(const MemoryPlan& plan,
                              const TrainingGraph& graph);

// The same with its graph, on the batches that it uses, in `graph`: what
// validators read.
nlohmann::ordered_json ToJsonWithGraph(const MemoryPlan& plan,
                                       const TrainingGraph& graph);

nlohmann::ordered_json ToJson(const std::vector<TaskPart>& parts);

// Reads what ToJson writes of a plan of `graph`. Unknown fields are ignored,
// and null counts as absent. May be left out: `choice`, `gpus` (1), `alignment`
// (256), the ideals, `feasible` (true; nothing else is accepted), a round's or
// a part's `count` (1). kInvalidArgument as above; also if the plan is of
// another network, precision or batch, or names a block or task that is not in
// the graph. Whether an iteration can run it is another question, which may be
// asked of whatever this accepts.
Result<MemoryPlan> MemoryPlanOf(const nlohmann::ordered_json& json,
                                const TrainingGraph& graph, std::string path);

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
// same after seconds of load is `loaded_tflops`. It may be left out, as may the
// latency, the launch, duplex and the algorithms.
nlohmann::ordered_json ToJson(const DeviceModel& model);
// kInvalidArgument, naming the field, its value and what is accepted. `json` is
// an object.
Result<DeviceModel> DeviceModelOf(const nlohmann::ordered_json& json);
// The same from text; errors also name `source`.
Result<DeviceModel> ParseDeviceModel(std::string_view text,
                                     std::string_view source);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_JSON_H_
