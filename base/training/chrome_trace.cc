#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/training/json.h"

namespace ucudnn {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

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
        if (!event.parts.empty()) args["parts"] = ToJson(event.parts);
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
