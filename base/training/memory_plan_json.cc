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
constexpr std::int64_t kMaxOffset = std::int64_t{1} << 61;

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
    ReadSubject(json, &object);
    object.Read("policy", ParsePlainName, &plan.policy);
    object.ReadOptional("choice", ParsePlainName, &plan.choice);
    std::int64_t sub_batch = 0;
    object.Read("sub_batch", 1, graph_.batch.count(), &sub_batch);
    plan.sub_batch = BatchSize(sub_batch);
    std::int64_t gpus = plan.gpus;
    if (object.Has("gpus")) object.Read("gpus", 1, 1 << 16, &gpus);
    plan.gpus = static_cast<int>(gpus);
    std::int64_t alignment = plan.alignment.count();
    if (object.Has("alignment")) {
      object.Read("alignment", 1, kMaxOffset, &alignment);
    }
    plan.alignment = Bytes(alignment);
    ReadSums(&object, &plan);
    object.ReadEach("resident", [&](const Json& block, std::string at) {
      return ReadResident(block, std::move(at), &plan.resident.emplace_back());
    });
    object.ReadEach("rounds", [&](const Json& round, std::string at) {
      return ReadRound(round, std::move(at), &plan.rounds.emplace_back());
    });
    UCUDNN_RETURN_IF_ERROR(object.status());
    return plan;
  }

 private:
  using Places = std::map<std::string, std::size_t, std::less<>>;

  // What the plan is about must be the graph.
  void ReadSubject(const Json& json, JsonObject* object) const {
    bool feasible = true;
    object->ReadOptional("feasible", &feasible);
    if (!feasible) object->Refuse("feasible", &json["feasible"], "true");
    std::string network;
    Precision precision = graph_.precision;
    BatchSize batch;
    object->Read("network", &network);
    object->Read("precision", ParsePrecision, &precision);
    object->Read("batch", &batch);
    if (!object->status()) return;
    if (network != graph_.network) {
      object->Refuse(
          "network", &json["network"],
          fmt::format("'{}', the graph's,", Excerpt(graph_.network)));
    } else if (precision != graph_.precision) {
      object->Refuse("precision", &json["precision"],
                     fmt::format("{}, the graph's,", Name(graph_.precision)));
    } else if (batch != graph_.batch) {
      object->Refuse("batch", &json["batch"],
                     fmt::format("{}, the graph's,", graph_.batch.count()));
    }
  }

  static void ReadSums(JsonObject* object, MemoryPlan* plan) {
    for (const auto& [key, bytes] :
         {std::pair("budget_bytes", &plan->budget),
          std::pair("peak_bytes", &plan->peak),
          std::pair("load_bytes", &plan->load),
          std::pair("lower_bound_bytes", &plan->lower_bound_bytes),
          std::pair("host_bytes", &plan->host),
          std::pair("offloaded_bytes", &plan->offloaded),
          std::pair("prefetched_bytes", &plan->prefetched)}) {
      std::int64_t count = 0;
      object->Read(key, 0, kMaxCount, &count);
      *bytes = Bytes(count);
    }
    object->Read("time_us", &plan->time);
    object->Read("stall_us", &plan->stall);
    object->Read("lower_bound_us", &plan->lower_bound);
    object->ReadOptional("ideal_time_us", &plan->ideal_time);
    object->ReadOptional("ideal_bytes", &plan->ideal_bytes);
    object->ReadOptional("cut_off", &plan->cut_off);
  }

  static void ReadRange(JsonObject* object, MemoryRange* range) {
    for (const auto& [key, bytes] : {std::pair("offset", &range->offset),
                                     std::pair("bytes", &range->bytes)}) {
      std::int64_t count = 0;
      object->Read(key, 0, kMaxOffset, &count);
      *bytes = Bytes(count);
    }
  }

  // The place of what `key` names.
  static void ReadPlace(const char* key, const Places& places,
                        std::string_view what, const Json& json,
                        JsonObject* object, std::size_t* place) {
    std::string name;
    object->Read(key, &name);
    if (!object->status()) return;
    const auto found = places.find(name);
    if (found == places.end()) return object->Refuse(key, &json[key], what);
    *place = found->second;
  }

  Status ReadResident(const Json& json, std::string path,
                      ResidentBlock* resident) const {
    JsonObject object(json, std::move(path));
    ReadPlace("block", blocks_, "a block of the graph", json, &object,
              &resident->block);
    ReadRange(&object, &resident->range);
    return object.status();
  }

  Status ReadRound(const Json& json, std::string path,
                   MemoryRound* round) const {
    JsonObject object(json, std::move(path));
    std::int64_t batch = 0;
    object.Read("batch", 1, graph_.batch.count(), &batch);
    round->batch = BatchSize(batch);
    if (object.Has("count")) {
      object.Read("count", 1, graph_.batch.count(), &round->count);
    }
    object.Read("time_us", &round->time);
    object.ReadEach("events", [&](const Json& event, std::string at) {
      return ReadEvent(event, std::move(at), &round->events.emplace_back());
    });
    return object.status();
  }

  Status ReadEvent(const Json& json, std::string path,
                   MemoryEvent* event) const {
    JsonObject object(json, std::move(path));
    object.Read("op", ParseEventOp, &event->op);
    object.Read("stream", ParseMemoryStream, &event->stream);
    object.Read("start_us", &event->start);
    if (event->op == EventOp::kCompute) {
      ReadCompute(json, &object, event);
    } else if (event->op != EventOp::kSync) {
      ReadPlace("block", blocks_, "a block of the graph", json, &object,
                &event->block);
      if (event->op == EventOp::kAlloc) ReadRange(&object, &event->range);
      if (IsTransfer(event->op)) {
        std::int64_t bytes = 0;
        object.Read("bytes", 0, kMaxOffset, &bytes);
        event->range.bytes = Bytes(bytes);
      }
    }
    if (TakesTime(event->op)) {
      object.Read("dur_us", &event->duration);
      if (event->duration > Nanoseconds(kMaxCount) - event->start) {
        object.Refuse("dur_us", &json["dur_us"],
                      "an end within 146 years of the round's start");
      }
    }
    object.ReadOptional("after", &event->after);
    std::sort(event->after.begin(), event->after.end());
    return object.status();
  }

  void ReadCompute(const Json& json, JsonObject* object,
                   MemoryEvent* event) const {
    ReadPlace("task", tasks_, "a task of the graph", json, object,
              &event->task);
    if (object->Has("workspace")) {
      object->ReadInside("workspace", [&](const Json& range, std::string at) {
        JsonObject inner(range, std::move(at));
        ReadRange(&inner, &event->range);
        return inner.status();
      });
    }
    if (!object->Has("parts")) return;
    object->ReadEach("parts", [&](const Json& part, std::string at) {
      return ReadPart(part, std::move(at), &event->parts.emplace_back());
    });
  }

  static Status ReadPart(const Json& json, std::string path, TaskPart* part) {
    JsonObject object(json, std::move(path));
    std::int64_t batch = 0;
    object.Read("batch", 1, kMaxBatchSize.count(), &batch);
    part->batch = BatchSize(batch);
    if (object.Has("count")) {
      object.Read("count", 1, kMaxBatchSize.count(), &part->count);
    }
    object.ReadOptional("algorithm", ParsePlainName, &part->algorithm);
    return object.status();
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
