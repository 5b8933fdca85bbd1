#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/files/json_object.h"
#include "base/names.h"
#include "base/text.h"
#include "base/training/json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

// The end of a range fits into 63 bits.
constexpr Bytes kMaxOffset{std::int64_t{1} << 61};

Result<EventOp> ParseEventOp(std::string_view text) {
  return ParseName(text, kEventOps, "what an event does");
}

Result<MemoryStream> ParseMemoryStream(std::string_view text) {
  return ParseName(text, kMemoryStreams, "a stream");
}

bool IsTransfer(EventOp op) {
  return op == EventOp::kOffload || op == EventOp::kPrefetch;
}

bool TakesTime(EventOp op) { return op == EventOp::kCompute || IsTransfer(op); }

// The duration in microseconds. Added to the start, as whoever computes with
// these numbers does, it gives no more than the end, where the next event
// starts: else 0.1 + 0.2 > 0.3 would make a workspace seem to be live for an
// instant beside what comes after it.
double DurationOf(const MemoryEvent& event) {
  const double start = Microseconds(event.start);
  const double end = Microseconds(event.end());
  double duration = Microseconds(event.duration);
  if (start + duration > end) duration = end - start;
  while (start + duration > end) duration = std::nextafter(duration, 0.0);
  return duration;
}

Json RangeOf(const MemoryRange& range) {
  return {{"offset", range.offset.count()}, {"bytes", range.bytes.count()}};
}

Json EventJson(const MemoryEvent& event, const TrainingGraph& graph) {
  Json json = {{"op", Name(event.op)},
               {"stream", Name(event.stream)},
               {"start_us", Microseconds(event.start)}};
  if (event.op == EventOp::kCompute) {
    json["task"] = graph.tasks[event.task].name;
    if (!event.parts.empty()) json["parts"] = ToJson(event.parts);
    json["dur_us"] = DurationOf(event);
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
      json["dur_us"] = DurationOf(event);
    }
  }
  if (!event.after.empty()) json["after"] = event.after;
  return json;
}

template <class T, class Show>
Json OrNull(const std::optional<T>& value, Show show) {
  return value ? Json(show(*value)) : Json(nullptr);
}

// Reads a plan of one graph.
class JsonReader {
 public:
  explicit JsonReader(const TrainingGraph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.blocks.size(); ++i) {
      blocks_.emplace(graph.blocks[i].name, i);
    }
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      tasks_.emplace(graph.tasks[i].name, i);
    }
  }

  Result<MemoryPlan> Read(const Json& json, std::string path) const {
    MemoryPlan plan;
    JsonObject object(json, std::move(path));
    ReadSubject(object);
    object.Read("policy", ParsePlainName, &plan.policy);
    object.ReadOptional("choice", ParsePlainName, &plan.choice);
    object.Read("sub_batch", BatchSize(1), graph_.batch, &plan.sub_batch);
    std::int64_t gpus = plan.gpus;
    object.ReadOptional("gpus", 1, 1 << 16, &gpus);
    plan.gpus = static_cast<int>(gpus);
    object.ReadOptional("alignment", Bytes(1), kMaxOffset, &plan.alignment);
    ReadSums(object, &plan);
    object.ReadEach(
        "resident",
        [&](JsonObject& block, ResidentBlock* resident) {
          ReadPlace(block, "block", blocks_, &resident->block);
          ReadRange(block, &resident->range);
        },
        &plan.resident);
    object.ReadEach(
        "rounds",
        [&](JsonObject& inner, MemoryRound* round) { ReadRound(inner, round); },
        &plan.rounds);
    UCUDNN_RETURN_IF_ERROR(object.status());
    return plan;
  }

 private:
  using Places = std::map<std::string, std::size_t, std::less<>>;

  // What the plan is about must be the graph.
  void ReadSubject(JsonObject& object) const {
    bool feasible = true;
    object.ReadOptional("feasible", &feasible);
    if (!feasible) object.Refuse("feasible", "true");
    std::string network;
    Precision precision = graph_.precision;
    BatchSize batch;
    object.Read("network", &network);
    object.Read("precision", ParsePrecision, &precision);
    object.Read("batch", &batch);
    const auto graphs = [](const auto& value) {
      return fmt::format("{}, the graph's,", value);
    };
    if (network != graph_.network) {
      object.Refuse("network", graphs("'" + Excerpt(graph_.network) + "'"));
    } else if (precision != graph_.precision) {
      object.Refuse("precision", graphs(Name(graph_.precision)));
    } else if (batch != graph_.batch) {
      object.Refuse("batch", graphs(graph_.batch.count()));
    }
  }

  static void ReadSums(JsonObject& object, MemoryPlan* plan) {
    for (const auto& [key, bytes] :
         {std::pair("budget_bytes", &plan->budget),
          std::pair("peak_bytes", &plan->peak),
          std::pair("load_bytes", &plan->load),
          std::pair("lower_bound_bytes", &plan->lower_bound_bytes),
          std::pair("host_bytes", &plan->host),
          std::pair("offloaded_bytes", &plan->offloaded),
          std::pair("prefetched_bytes", &plan->prefetched)}) {
      object.Read(key, Bytes(0), Bytes(kMaxCount), bytes);
    }
    object.Read("time_us", &plan->time);
    object.Read("stall_us", &plan->stall);
    object.Read("lower_bound_us", &plan->lower_bound);
    object.ReadOptional("ideal_time_us", &plan->ideal_time);
    object.ReadOptional("ideal_bytes", &plan->ideal_bytes);
    object.ReadOptional("cut_off", &plan->cut_off);
  }

  static void ReadRange(JsonObject& object, MemoryRange* range) {
    object.Read("offset", Bytes(0), kMaxOffset, &range->offset);
    object.Read("bytes", Bytes(0), kMaxOffset, &range->bytes);
  }

  // The place of what `key` names.
  static void ReadPlace(JsonObject& object, const char* key,
                        const Places& places, std::size_t* place) {
    std::string name;
    object.Read(key, &name);
    if (!object.status()) return;
    const auto found = places.find(name);
    if (found == places.end()) {
      return object.Refuse(key, fmt::format("a {} of the graph", key));
    }
    *place = found->second;
  }

  void ReadRound(JsonObject& object, MemoryRound* round) const {
    object.Read("batch", BatchSize(1), graph_.batch, &round->batch);
    object.ReadOptional("count", 1, graph_.batch.count(), &round->count);
    object.Read("time_us", &round->time);
    object.ReadEach(
        "events",
        [&](JsonObject& inner, MemoryEvent* event) { ReadEvent(inner, event); },
        &round->events);
  }

  void ReadEvent(JsonObject& object, MemoryEvent* event) const {
    object.Read("op", ParseEventOp, &event->op);
    object.Read("stream", ParseMemoryStream, &event->stream);
    object.Read("start_us", &event->start);
    if (event->op == EventOp::kCompute) {
      ReadCompute(object, event);
    } else if (event->op != EventOp::kSync) {
      ReadPlace(object, "block", blocks_, &event->block);
      if (event->op == EventOp::kAlloc) ReadRange(object, &event->range);
      if (IsTransfer(event->op)) {
        object.Read("bytes", Bytes(0), kMaxOffset, &event->range.bytes);
      }
    }
    if (TakesTime(event->op)) {
      object.Read("dur_us", &event->duration);
      if (event->duration > Nanoseconds(kMaxCount) - event->start) {
        object.Refuse("dur_us", "an end within 146 years of the round's start");
      }
    }
    object.ReadOptional("after", &event->after);
    std::sort(event->after.begin(), event->after.end());
  }

  void ReadCompute(JsonObject& object, MemoryEvent* event) const {
    ReadPlace(object, "task", tasks_, &event->task);
    if (object.Has("workspace")) {
      object.ReadInside("workspace", ReadRange, &event->range);
    }
    if (object.Has("parts")) {
      object.ReadEach("parts", ReadPart, &event->parts);
    }
  }

  static void ReadPart(JsonObject& object, TaskPart* part) {
    object.Read("batch", BatchSize(1), kMaxBatchSize, &part->batch);
    object.ReadOptional("count", 1, kMaxBatchSize.count(), &part->count);
    object.ReadOptional("algorithm", ParsePlainName, &part->algorithm);
  }

  const TrainingGraph& graph_;
  Places blocks_;
  Places tasks_;
};

}  // namespace

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

Json ToJson(const std::vector<TaskPart>& parts) {
  Json list = Json::array();
  for (const TaskPart& part : parts) {
    Json json = {{"batch", part.batch.count()}, {"count", part.count}};
    if (!part.algorithm.empty()) json["algorithm"] = part.algorithm;
    list.push_back(std::move(json));
  }
  return list;
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
  if (plan.cut_off) json["cut_off"] = true;
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

Json ToJsonWithGraph(const MemoryPlan& plan, const TrainingGraph& graph) {
  Json json = ToJson(plan, graph);
  json["graph"] = ToJson(graph, BatchesOf(plan, graph.batch));
  return json;
}

Result<MemoryPlan> MemoryPlanOf(const Json& json, const TrainingGraph& graph,
                                std::string path) {
  return JsonReader(graph).Read(json, std::move(path));
}

}  // namespace ucudnn
