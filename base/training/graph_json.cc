#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "base/training/json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

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

Json PartsOf(const MemoryEvent& event) {
  Json parts = Json::array();
  for (const TaskPart& part : event.parts) {
    Json json = {{"batch", part.batch.count()}, {"count", part.count}};
    if (!part.algorithm.empty()) json["algorithm"] = part.algorithm;
    parts.push_back(std::move(json));
  }
  return parts;
}

Json RangeOf(const MemoryRange& range) {
  return {{"offset", range.offset.count()}, {"bytes", range.bytes.count()}};
}

bool IsTransfer(EventOp op) {
  return op == EventOp::kOffload || op == EventOp::kPrefetch;
}

Json EventJson(const MemoryEvent& event, const TrainingGraph& graph) {
  Json json = {{"op", Name(event.op)},
               {"stream", Name(event.stream)},
               {"start_us", Microseconds(event.start)}};
  if (event.op == EventOp::kCompute) {
    json["task"] = graph.tasks[event.task].name;
    if (!event.parts.empty()) json["parts"] = PartsOf(event);
    json["dur_us"] = Microseconds(event.duration);
    if (event.range.bytes > Bytes(0)) {
      json["workspace"] = RangeOf(event.range);
    }
  } else if (event.op != EventOp::kSync) {
    json["block"] = graph.blocks[event.block].name;
    if (event.op == EventOp::kAlloc) {
      json["kind"] = Name(graph.blocks[event.block].kind);
      json.update(RangeOf(event.range));
    }
    if (IsTransfer(event.op)) {
      json["bytes"] = event.range.bytes.count();
      json["dur_us"] = Microseconds(event.duration);
    }
  }
  if (!event.after.empty()) json["after"] = event.after;
  return json;
}

template <class T, class Show>
Json OrNull(const std::optional<T>& value, Show show) {
  return value ? Json(show(*value)) : Json(nullptr);
}

}  // namespace

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
    tasks.back()["costs"] = CostsOf(task, graph, batches);
  }
  return json;
}

std::vector<BatchSize> BatchesOf(const MemoryPlan& plan, BatchSize batch) {
  std::set<BatchSize> batches = {batch};
  for (const MemoryRound& round : plan.rounds) {
    batches.insert(round.batch);
    for (const MemoryEvent& event : round.events) {
      for (const TaskPart& part : event.parts) batches.insert(part.batch);
    }
  }
  return {batches.begin(), batches.end()};
}

Json ToJson(const MemoryPlan& plan, const TrainingGraph& graph) {
  const auto microseconds = [](Nanoseconds time) { return Microseconds(time); };
  const auto bytes = [](Bytes size) { return size.count(); };
  Json json = {{"policy", plan.policy}};
  if (!plan.choice.empty()) json["choice"] = plan.choice;
  json.update({{"feasible", true},
               {"network", graph.network},
               {"precision", Name(graph.precision)},
               {"batch", graph.batch.count()},
               {"sub_batch", plan.sub_batch.count()},
               {"gpus", plan.gpus},
               {"budget_bytes", plan.budget.count()},
               {"alignment", plan.alignment.count()},
               {"time_us", Microseconds(plan.time)},
               {"ideal_time_us", OrNull(plan.ideal_time, microseconds)},
               {"lower_bound_us", Microseconds(plan.lower_bound)},
               {"stall_us", Microseconds(plan.stall)},
               {"peak_bytes", plan.peak.count()},
               {"load_bytes", plan.load.count()},
               {"ideal_bytes", OrNull(plan.ideal_bytes, bytes)},
               {"lower_bound_bytes", plan.lower_bound_bytes.count()},
               {"host_bytes", plan.host.count()},
               {"offloaded_bytes", plan.offloaded.count()},
               {"prefetched_bytes", plan.prefetched.count()}});
  Json& residents = json["resident"] = Json::array();
  for (const ResidentBlock& resident : plan.resident) {
    Json block = {{"block", graph.blocks[resident.block].name},
                  {"kind", Name(graph.blocks[resident.block].kind)}};
    block.update(RangeOf(resident.range));
    residents.push_back(std::move(block));
  }
  Json& rounds = json["rounds"] = Json::array();
  for (const MemoryRound& round : plan.rounds) {
    Json events = Json::array();
    for (const MemoryEvent& event : round.events) {
      events.push_back(EventJson(event, graph));
    }
    rounds.push_back({{"batch", round.batch.count()},
                      {"count", round.count},
                      {"time_us", Microseconds(round.time)},
                      {"events", std::move(events)}});
  }
  return json;
}

Json ChromeTrace(const MemoryPlan& plan, const TrainingGraph& graph) {
  Json trace = Json::array();
  std::set<MemoryStream> used;
  const auto row = [](MemoryStream stream) {
    return static_cast<int>(stream) + 1;
  };
  Nanoseconds base{0};
  std::int64_t arrow = 0;
  for (const MemoryRound& round : plan.rounds) {
    for (std::int64_t run = 0; run < round.count; ++run) {
      std::int64_t live = 0;
      std::vector<std::int64_t> sizes(graph.blocks.size());
      for (const ResidentBlock& resident : plan.resident) {
        sizes[resident.block] = resident.range.bytes.count();
        live += sizes[resident.block];
      }
      for (const MemoryEvent& event : round.events) {
        const double at = Microseconds(base + event.start);
        used.insert(event.stream);
        if (event.op == EventOp::kAlloc || event.op == EventOp::kFree) {
          std::int64_t& size = sizes[event.block];
          if (event.op == EventOp::kAlloc) size = event.range.bytes.count();
          live += event.op == EventOp::kAlloc ? size : -size;
          trace.push_back({{"name", "live bytes"},
                           {"ph", "C"},
                           {"pid", 1},
                           {"ts", at},
                           {"args", {{"bytes", live}}}});
          continue;
        }
        if (event.op == EventOp::kSync) continue;
        std::string name = graph.tasks[event.task].name;
        if (event.op != EventOp::kCompute) {
          name = fmt::format("{} {}", Name(event.op),
                             graph.blocks[event.block].name);
        }
        Json args = {{"bytes", event.range.bytes.count()}};
        if (!event.parts.empty()) args["parts"] = PartsOf(event);
        trace.push_back({{"name", std::move(name)},
                         {"cat", Name(event.op)},
                         {"ph", "X"},
                         {"pid", 1},
                         {"tid", row(event.stream)},
                         {"ts", at},
                         {"dur", Microseconds(event.duration)},
                         {"args", std::move(args)}});
        for (const std::size_t after : event.after) {
          const MemoryEvent& other = round.events[after];
          if (other.stream == event.stream) continue;
          ++arrow;
          trace.push_back({{"name", "wait"},
                           {"cat", "wait"},
                           {"ph", "s"},
                           {"id", arrow},
                           {"pid", 1},
                           {"tid", row(other.stream)},
                           {"ts", Microseconds(base + other.end())}});
          trace.push_back({{"name", "wait"},
                           {"cat", "wait"},
                           {"ph", "f"},
                           {"bp", "e"},
                           {"id", arrow},
                           {"pid", 1},
                           {"tid", row(event.stream)},
                           {"ts", at}});
        }
      }
      base += round.time;
    }
  }
  for (const MemoryStream stream : used) {
    trace.push_back({{"name", "thread_name"},
                     {"ph", "M"},
                     {"pid", 1},
                     {"tid", row(stream)},
                     {"args", {{"name", Name(stream)}}}});
  }
  return {{"traceEvents", std::move(trace)}, {"displayTimeUnit", "ms"}};
}

}  // namespace ucudnn
