#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "base/files/json_object.h"
#include "base/names.h"
#include "base/training/json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

Result<BlockKind> ParseBlockKind(std::string_view text) {
  return ParseName(text, kBlockKinds, "a kind of block");
}

Result<TaskKind> ParseTaskKind(std::string_view text) {
  return ParseName(text, kTaskKinds, "a kind of task");
}

Json NamesOf(const std::vector<std::size_t>& blocks,
             const TrainingGraph& graph) {
  Json names = Json::array();
  for (const std::size_t block : blocks) {
    names.push_back(graph.blocks[block].name);
  }
  return names;
}

Json CostsOf(const Task& task, const TrainingGraph& graph,
             const std::vector<BatchSize>& batches) {
  Json list = Json::array();
  const bool any_batch = task.work.fixed || task.kind == TaskKind::kUpdate;
  for (const BatchSize batch : batches) {
    for (const TaskCost& cost : CostsAt(graph, task, batch)) {
      Json json = Json::object();
      if (!any_batch) json["batch"] = batch.count();
      if (!cost.algorithm.name.empty()) {
        json["algorithm"] = cost.algorithm.name;
        json["workspace_bytes"] = cost.workspace.count();
      }
      json["time_us"] = Microseconds(cost.time);
      list.push_back(std::move(json));
    }
    if (any_batch) break;
  }
  return list;
}

class GraphReader {
 public:
  Result<TrainingGraph> Read(const Json& json, std::string path) {
    JsonObject object(json, std::move(path));
    object.Read("network", &graph_.network);
    object.Read("precision", ParsePrecision, &graph_.precision);
    object.Read("batch", BatchSize(1), kMaxBatchSize, &graph_.batch);
    object.ReadInside("device", ReadDevice, &graph_.device);
    object.ReadEach(
        "blocks",
        [&](JsonObject& inner, MemoryBlock* block) { ReadBlock(inner, block); },
        &graph_.blocks);
    object.ReadEach(
        "tasks", [&](JsonObject& inner, Task* task) { ReadTask(inner, task); },
        &graph_.tasks);
    UCUDNN_RETURN_IF_ERROR(object.status());
    return std::move(graph_);
  }

 private:
  static void ReadDevice(JsonObject& object, DeviceModel* device) {
    object.ReadOptional("name", ParsePlainName, &device->name);
    device->memory = Bytes(0);
    object.ReadOptional("memory_bytes", Bytes(0), Bytes(kMaxCount),
                        &device->memory);
    // As Validate accepts them.
    object.Read("d2h_bytes_per_us", 1e-3, 1e15, &device->d2h_rate);
    object.Read("h2d_bytes_per_us", 1e-3, 1e15, &device->h2d_rate);
    device->transfer_latency = Nanoseconds(0);
    object.ReadOptional("transfer_latency_us", Nanoseconds(0),
                        std::chrono::hours(1), &device->transfer_latency);
    object.ReadOptional("duplex", &device->duplex);
  }

  void ReadBlock(JsonObject& object, MemoryBlock* block) {
    object.Read("name", ParsePlainName, &block->name);
    object.Read("kind", ParseBlockKind, &block->kind);
    object.ReadOptional("bytes", Bytes(0), Bytes(kMaxCount), &block->bytes);
    object.ReadOptional("bytes_per_image", Bytes(0), Bytes(kMaxCount),
                        &block->bytes_per_image);
    object.ReadOptional("persistent", &block->persistent);
    if (!object.status()) return;
    if (!blocks_.emplace(block->name, blocks_.size()).second) {
      object.Refuse("name", "a name that no other block has");
    }
    std::int64_t size = 0;
    if (__builtin_mul_overflow(block->bytes_per_image.count(),
                               graph_.batch.count(), &size) ||
        __builtin_add_overflow(size, block->bytes.count(), &size) ||
        size > kMaxCount - sum_) {
      object.Refuse("", "a size that keeps the sum below 2^62 bytes");
    } else {
      sum_ += size;
    }
  }

  void ReadTask(JsonObject& object, Task* task) {
    object.Read("name", ParsePlainName, &task->name);
    object.Read("kind", ParseTaskKind, &task->kind);
    ReadBlocks(object, "reads", &task->reads);
    ReadBlocks(object, "writes", &task->writes);
    object.ReadOptional("recomputable", &task->recomputable);
    object.ReadOptional("problem", ParseConvProblem, &task->work.conv);
    std::string layer(NodeOf(*task));
    object.ReadOptional("layer", ParsePlainName, &layer);
    std::string op_type;
    object.ReadOptional("operator", ParsePlainName, &op_type);
    if (!object.status()) return;
    if (!task_names_.insert(task->name).second) {
      object.Refuse("name", "a name that no other task has");
    }
    const auto [place, first] = layers_.emplace(layer, layers_.size());
    if (first) graph_.layers.push_back({layer, op_type});
    task->layer = place->second;
    ReadCosts(object, task);
  }

  void ReadBlocks(JsonObject& object, const char* key,
                  std::vector<std::size_t>* blocks) const {
    std::set<std::size_t> seen;
    object.ReadEach(key, [&](const Json& json, std::string at) -> Status {
      const auto found = json.is_string()
                             ? blocks_.find(json.get<std::string>())
                             : blocks_.end();
      if (found == blocks_.end()) {
        return JsonObject::Refusal(at, &json, "the name of a block");
      }
      if (!seen.insert(found->second).second) {
        return JsonObject::Refusal(at, &json, "each block once");
      }
      blocks->push_back(found->second);
      return {};
    });
  }

  static void ReadCosts(JsonObject& object, Task* task) {
    bool any_batch = false;
    std::set<std::pair<BatchSize, std::string>> ways;
    std::vector<MeasuredPoint>& measured = task->work.measured;
    const auto read = [&](JsonObject& cost, MeasuredPoint* point) {
      ReadCost(cost, point);
      any_batch = any_batch || point->batch == BatchSize(0);
      if (!ways.emplace(point->batch, point->algorithm.name).second) {
        cost.Refuse("", "another batch or algorithm");
      }
    };
    object.ReadEach("costs", read, &measured);
    if (!object.status()) return;
    if (measured.empty() || (any_batch && measured.size() > 1)) {
      return object.Refuse("costs",
                           "one without a batch, or one for each batch that "
                           "the task can run on,");
    }
    if (!any_batch) return;
    task->work.fixed = measured[0].time;
    measured.clear();
  }

  // A batch of 0 if the cost holds for any batch.
  static void ReadCost(JsonObject& object, MeasuredPoint* point) {
    object.Read("time_us", &point->time);
    object.ReadOptional("batch", BatchSize(1), kMaxBatchSize, &point->batch);
    object.ReadOptional("algorithm", ParsePlainName, &point->algorithm.name);
    object.ReadOptional("workspace_bytes", Bytes(0), Bytes(kMaxCount),
                        &point->workspace);
    if (point->workspace > Bytes(0) && point->algorithm.name.empty()) {
      object.Refuse("workspace_bytes", "0, where no algorithm is named,");
    }
    if (point->batch == BatchSize(0) && !point->algorithm.name.empty()) {
      object.Refuse("algorithm", "none, where there is no batch,");
    }
  }

  TrainingGraph graph_;
  std::map<std::string, std::size_t> blocks_;
  std::map<std::string, std::size_t> layers_;
  std::set<std::string> task_names_;
  std::int64_t sum_ = 0;  // of the blocks' sizes at the mini-batch
};

}  // namespace

std::vector<BatchSize> MeasuredBatchesOf(const TrainingGraph& graph) {
  std::set<BatchSize> batches = {graph.batch};
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kUpdate) continue;
    for (const MeasuredPoint& point : task.work.measured) {
      batches.insert(point.batch);
    }
  }
  return {batches.begin(), batches.end()};
}

Json ToJson(const TrainingGraph& graph, const std::vector<BatchSize>& batches) {
  const DeviceModel& device = graph.device;
  Json json = {{"network", graph.network},
               {"precision", Name(graph.precision)},
               {"batch", graph.batch.count()},
               {"device",
                {{"name", device.name},
                 {"memory_bytes", device.memory.count()},
                 {"d2h_bytes_per_us", device.d2h_rate},
                 {"h2d_bytes_per_us", device.h2d_rate},
                 {"transfer_latency_us", Microseconds(device.transfer_latency)},
                 {"duplex", device.duplex}}}};
  Json& blocks = json["blocks"] = Json::array();
  for (const MemoryBlock& block : graph.blocks) {
    blocks.push_back({{"name", block.name},
                      {"kind", Name(block.kind)},
                      {"bytes", block.bytes.count()},
                      {"bytes_per_image", block.bytes_per_image.count()}});
    if (block.persistent) blocks.back()["persistent"] = true;
  }
  Json& tasks = json["tasks"] = Json::array();
  for (const Task& task : graph.tasks) {
    tasks.push_back({{"name", task.name},
                     {"kind", Name(task.kind)},
                     {"layer", graph.layers[task.layer].name},
                     {"operator", graph.layers[task.layer].op_type},
                     {"reads", NamesOf(task.reads, graph)},
                     {"writes", NamesOf(task.writes, graph)}});
    if (task.recomputable) tasks.back()["recomputable"] = true;
    if (task.work.conv) tasks.back()["problem"] = ToString(*task.work.conv);
    tasks.back()["costs"] = CostsOf(task, graph, batches);
  }
  return json;
}

Result<TrainingGraph> TrainingGraphOf(const Json& json, std::string path) {
  return GraphReader().Read(json, std::move(path));
}

Result<TrainingGraph> ParseTrainingGraph(std::string_view text,
                                         std::string_view source) {
  Result<TrainingGraph> graph = ParseJson(text).and_then(
      [](const Json& json) { return TrainingGraphOf(json, ""); });
  if (!graph) return Within(source, std::move(graph).error());
  return graph;
}

}  // namespace ucudnn
