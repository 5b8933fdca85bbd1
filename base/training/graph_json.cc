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
    std::int64_t batch = 0;
    object.Read("batch", 1, kMaxBatchSize.count(), &batch);
    graph_.batch = BatchSize(batch);
    object.ReadInside("device", [&](const Json& device, std::string at) {
      return ReadDevice(device, std::move(at));
    });
    object.ReadEach("blocks", [&](const Json& block, std::string at) {
      return ReadBlock(block, std::move(at));
    });
    object.ReadEach("tasks", [&](const Json& task, std::string at) {
      return ReadTask(task, std::move(at));
    });
    UCUDNN_RETURN_IF_ERROR(object.status());
    return std::move(graph_);
  }

 private:
  Status ReadDevice(const Json& json, std::string path) {
    DeviceModel& device = graph_.device;
    JsonObject object(json, std::move(path));
    object.ReadOptional("name", ParsePlainName, &device.name);
    std::int64_t memory = 0;
    if (object.Has("memory_bytes")) {
      object.Read("memory_bytes", 0, kMaxCount, &memory);
    }
    device.memory = Bytes(memory);
    // As Validate accepts them.
    object.Read("d2h_bytes_per_us", 1e-3, 1e15, &device.d2h_rate);
    object.Read("h2d_bytes_per_us", 1e-3, 1e15, &device.h2d_rate);
    double latency = 0;
    if (object.Has("transfer_latency_us")) {
      object.Read("transfer_latency_us", 0, 3.6e9, &latency);
    }
    UCUDNN_ASSIGN_OR_RETURN(device.transfer_latency, FromMicroseconds(latency));
    object.ReadOptional("duplex", &device.duplex);
    return object.status();
  }

  Status ReadBlock(const Json& json, std::string path) {
    MemoryBlock& block = graph_.blocks.emplace_back();
    JsonObject object(json, std::move(path));
    object.Read("name", ParsePlainName, &block.name);
    object.Read("kind", ParseBlockKind, &block.kind);
    std::int64_t fixed = 0;
    std::int64_t per_image = 0;
    if (object.Has("bytes")) object.Read("bytes", 0, kMaxCount, &fixed);
    if (object.Has("bytes_per_image")) {
      object.Read("bytes_per_image", 0, kMaxCount, &per_image);
    }
    block.bytes = Bytes(fixed);
    block.bytes_per_image = Bytes(per_image);
    object.ReadOptional("persistent", &block.persistent);
    UCUDNN_RETURN_IF_ERROR(object.status());
    if (!blocks_.emplace(block.name, blocks_.size()).second) {
      object.Refuse("name", &json["name"], "a name that no other block has");
    }
    std::int64_t size = 0;
    if (__builtin_mul_overflow(per_image, graph_.batch.count(), &size) ||
        __builtin_add_overflow(size, fixed, &size) || size > kMaxCount - sum_) {
      object.Refuse("", &json, "a size that keeps the sum below 2^62 bytes");
    } else {
      sum_ += size;
    }
    return object.status();
  }

  Status ReadTask(const Json& json, std::string path) {
    Task& task = graph_.tasks.emplace_back();
    JsonObject object(json, std::move(path));
    object.Read("name", ParsePlainName, &task.name);
    object.Read("kind", ParseTaskKind, &task.kind);
    ReadBlocks("reads", &object, &task.reads);
    ReadBlocks("writes", &object, &task.writes);
    object.ReadOptional("recomputable", &task.recomputable);
    object.ReadOptional("problem", ParseConvProblem, &task.work.conv);
    std::string layer(NodeOf(task));
    object.ReadOptional("layer", ParsePlainName, &layer);
    std::string op_type;
    object.ReadOptional("operator", ParsePlainName, &op_type);
    UCUDNN_RETURN_IF_ERROR(object.status());
    if (!task_names_.insert(task.name).second) {
      object.Refuse("name", &json["name"], "a name that no other task has");
    }
    const auto [place, first] = layers_.emplace(layer, layers_.size());
    if (first) graph_.layers.push_back({layer, op_type});
    task.layer = place->second;
    ReadCosts(json, &object, &task);
    return object.status();
  }

  void ReadBlocks(const char* key, JsonObject* object,
                  std::vector<std::size_t>* blocks) const {
    std::set<std::size_t> seen;
    object->ReadEach(key, [&](const Json& json, std::string at) -> Status {
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

  static void ReadCosts(const Json& json, JsonObject* object, Task* task) {
    bool any_batch = false;
    std::set<std::pair<BatchSize, std::string>> ways;
    object->ReadEach("costs", [&](const Json& cost, std::string at) -> Status {
      MeasuredPoint& point = task->work.measured.emplace_back();
      UCUDNN_RETURN_IF_ERROR(ReadCost(cost, at, &point));
      any_batch = any_batch || point.batch == BatchSize(0);
      if (ways.emplace(point.batch, point.algorithm.name).second) return {};
      return JsonObject::Refusal(at, &cost, "another batch or algorithm");
    });
    if (!object->status()) return;
    std::vector<MeasuredPoint>& measured = task->work.measured;
    if (measured.empty() || (any_batch && measured.size() > 1)) {
      return object->Refuse("costs", &json["costs"],
                            "one without a batch, or one for each batch that "
                            "the task can run on,");
    }
    if (!any_batch) return;
    task->work.fixed = measured[0].time;
    measured.clear();
  }

  // A batch of 0 if the cost holds for any batch.
  static Status ReadCost(const Json& json, std::string path,
                         MeasuredPoint* point) {
    JsonObject object(json, std::move(path));
    object.Read("time_us", &point->time);
    if (object.Has("batch")) {
      std::int64_t batch = 0;
      object.Read("batch", 1, kMaxBatchSize.count(), &batch);
      point->batch = BatchSize(batch);
    }
    object.ReadOptional("algorithm", ParsePlainName, &point->algorithm.name);
    std::int64_t workspace = 0;
    if (object.Has("workspace_bytes")) {
      object.Read("workspace_bytes", 0, kMaxCount, &workspace);
    }
    point->workspace = Bytes(workspace);
    if (workspace > 0 && point->algorithm.name.empty()) {
      object.Refuse("workspace_bytes", &json["workspace_bytes"],
                    "0, where no algorithm is named,");
    }
    if (point->batch == BatchSize(0) && !point->algorithm.name.empty()) {
      object.Refuse("algorithm", &json["algorithm"],
                    "none, where there is no batch,");
    }
    return object.status();
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
