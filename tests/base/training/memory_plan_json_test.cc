// Memory plans as JSON: what is written is read back to the nanosecond, and
// what is wrong is named. Whether plans are safe is asked in tests/solver.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/training/json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

TrainingGraph SmallGraph() {
  TrainingGraph graph;
  graph.network = "toy";
  graph.batch = BatchSize(6);
  graph.blocks = {{"x", BlockKind::kInput, Bytes(0), Bytes(8), false},
                  {"y", BlockKind::kActivation, Bytes(0), Bytes(4), false}};
  graph.layers = {{"a", "Conv"}};
  graph.tasks = {{"a.forward", TaskKind::kForward, 0, {0}, {1}}};
  return graph;
}

// One event of every kind, in two kinds of rounds. No iteration can run it.
MemoryPlan SomeMemoryPlan() {
  MemoryPlan plan;
  plan.policy = "best";
  plan.choice = "conv(p)";
  plan.sub_batch = BatchSize(4);
  plan.budget = Bytes(1000);
  plan.alignment = Bytes(4);
  plan.gpus = 2;
  plan.resident = {{0, {Bytes(16), Bytes(32)}}};
  MemoryRound round;
  round.batch = BatchSize(4);
  round.count = 1;
  round.time = Nanoseconds(300);
  const auto at = [](int ns) { return Nanoseconds(ns); };
  using S = MemoryStream;
  round.events = {{EventOp::kAlloc,
                   S::kCompute,
                   at(0),
                   at(0),
                   {},
                   1,
                   0,
                   {Bytes(64), Bytes(16)}},
                  {EventOp::kCompute,
                   S::kCompute,
                   at(100),
                   at(200),
                   {0},
                   0,
                   0,
                   {Bytes(80), Bytes(8)},
                   {{BatchSize(1), 2, "FFT"}, {BatchSize(2), 1, ""}}},
                  {EventOp::kOffload,
                   S::kD2h,
                   at(300),
                   at(7),
                   {0, 1},
                   1,
                   0,
                   {Bytes(0), Bytes(16)}},
                  {EventOp::kSync, S::kCompute, at(300), at(0), {2}},
                  {EventOp::kFree, S::kCopy, at(300), at(0), {}, 1},
                  {EventOp::kPrefetch,
                   S::kH2d,
                   at(300),
                   at(9),
                   {},
                   0,
                   0,
                   {Bytes(0), Bytes(32)}}};
  plan.rounds = {round, round};
  plan.rounds[1].batch = BatchSize(2);
  plan.rounds[1].events.resize(1);
  plan.time = at(600);
  plan.stall = at(200);
  plan.peak = Bytes(88);
  plan.load = Bytes(56);
  plan.host = Bytes(16);
  plan.offloaded = Bytes(16);
  plan.prefetched = Bytes(32);
  plan.ideal_bytes = Bytes(100);
  plan.lower_bound = at(599);
  plan.lower_bound_bytes = Bytes(40);
  plan.cut_off = true;
  return plan;
}

TEST(MemoryPlanJsonTest, ReadsBackWhatItWrites) {
  const TrainingGraph graph = SmallGraph();
  const Json json = ToJson(SomeMemoryPlan(), graph);
  const Result<MemoryPlan> read =
      MemoryPlanOf(Json::parse(json.dump()), graph, "");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, SomeMemoryPlan());
}

TEST(MemoryPlanJsonTest, StartAndDurationNeverExceedTheEndInDoublePrecision) {
  const TrainingGraph graph = SmallGraph();
  MemoryPlan plan = SomeMemoryPlan();
  plan.rounds.resize(1);
  plan.rounds[0].events = {plan.rounds[0].events[1]};
  std::mt19937_64 random(11);
  // 0.1 + 0.2 is not 0.3; then random times of up to a day.
  Nanoseconds start(100);
  Nanoseconds duration(200);
  for (int trial = 0; trial < 4000; ++trial) {
    MemoryEvent& event = plan.rounds[0].events[0];
    event.start = start;
    event.duration = duration;
    const Json json = ToJson(plan, graph)["rounds"][0]["events"][0];
    const double end =
        json["start_us"].get<double>() + json["dur_us"].get<double>();
    ASSERT_LE(end, Microseconds(event.end()))
        << start.count() << " + " << duration.count();
    ASSERT_DOUBLE_EQ(end, Microseconds(event.end()));
    const auto up_to = [&](int bits) {
      return Nanoseconds(random() % (std::uint64_t{1} << bits));
    };
    start = up_to(1 + trial % 46);
    duration = up_to(1 + trial / 46 % 46);
  }
}

TEST(MemoryPlanJsonTest, FillsInWhatMayBeLeftOut) {
  const TrainingGraph graph = SmallGraph();
  Json json = ToJson(SomeMemoryPlan(), graph);
  for (const char* key : {"choice", "feasible", "gpus", "alignment",
                          "ideal_time_us", "ideal_bytes", "cut_off"}) {
    json.erase(key);
  }
  json["rounds"][0].erase("count");
  json["rounds"][0]["events"][1]["parts"][1].erase("count");
  json["later"] = "ignored";
  MemoryPlan expected = SomeMemoryPlan();
  expected.choice = "";
  expected.gpus = 1;
  expected.alignment = Bytes(256);
  expected.ideal_bytes.reset();
  expected.cut_off = false;
  EXPECT_EQ(MemoryPlanOf(json, graph, "").value(), expected);
}

TEST(MemoryPlanJsonTest, NamesThePathTheValueAndWhatIsAccepted) {
  const auto event = [](Json& j, std::size_t i) -> Json& {
    return j["rounds"][0]["events"][i];
  };
  struct Case {
    std::function<void(Json&)> change;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](Json& j) { j = Json::array(); },
       "the document is array of 0; an object"},
      {[](Json& j) { j["feasible"] = false; }, "feasible is false; true"},
      {[](Json& j) { j["network"] = "net"; },
       "network is \"net\"; 'toy', the graph's, is accepted"},
      {[](Json& j) { j["precision"] = "TF32"; },
       "precision is \"TF32\"; FP32, the graph's, is accepted"},
      {[](Json& j) { j["batch"] = 5; },
       "batch is 5; 6, the graph's, is accepted"},
      {[](Json& j) { j["sub_batch"] = 7; },
       "sub_batch is 7; a whole number from 1 to 6"},
      {[](Json& j) { j["alignment"] = 0; },
       "alignment is 0; a whole number from 1"},
      {[](Json& j) { j["peak_bytes"] = -1; },
       "peak_bytes is -1; a whole number from 0"},
      {[](Json& j) { j["time_us"] = "1"; },
       "time_us is \"1\"; a number of microseconds"},
      {[](Json& j) { j["resident"][0]["block"] = "z"; },
       "resident[0].block is \"z\"; a block of the graph"},
      {[](Json& j) { j["rounds"] = 2; }, "rounds is 2; an array"},
      {[](Json& j) { j["rounds"][1]["batch"] = 7; },
       "rounds[1].batch is 7; a whole number from 1 to 6"},
      {[](Json& j) { j["rounds"][1]["count"] = 0; },
       "rounds[1].count is 0; a whole number from 1 to 6"},
      {[&](Json& j) { event(j, 0)["op"] = "malloc"; },
       "rounds[0].events[0].op: 'malloc' is not what an event does; one of "
       "alloc, free, sync, compute, offload, prefetch"},
      {[&](Json& j) { event(j, 0)["stream"] = "s"; },
       "rounds[0].events[0].stream: 's' is not a stream; one of compute, host"},
      {[&](Json& j) { event(j, 0).erase("offset"); },
       "rounds[0].events[0].offset is missing; a whole number"},
      {[&](Json& j) { event(j, 0)["bytes"] = std::int64_t{1} << 62; },
       "rounds[0].events[0].bytes is 4611686018427387904; a whole number"},
      {[&](Json& j) { event(j, 1)["task"] = "b"; },
       "rounds[0].events[1].task is \"b\"; a task of the graph"},
      {[&](Json& j) { event(j, 1)["workspace"] = 8; },
       "rounds[0].events[1].workspace is 8; an object"},
      {[&](Json& j) { event(j, 1)["parts"][0]["batch"] = 0; },
       "rounds[0].events[1].parts[0].batch is 0; a whole number from 1"},
      {[&](Json& j) { event(j, 1)["after"] = {-1}; },
       "rounds[0].events[1].after[0] is -1; an index from 0 on"},
      {[&](Json& j) { event(j, 2)["block"] = nullptr; },
       "rounds[0].events[2].block is missing; text"},
      {[&](Json& j) {
         event(j, 2)["start_us"] = 4.6e15;
         event(j, 2)["dur_us"] = 4.6e15;
       },
       "rounds[0].events[2].dur_us is 4.6e+15; an end within 146 years"},
  };
  const TrainingGraph graph = SmallGraph();
  for (const Case& wrong : cases) {
    Json json = ToJson(SomeMemoryPlan(), graph);
    wrong.change(json);
    const Result<MemoryPlan> read = MemoryPlanOf(json, graph, "");
    ASSERT_FALSE(read) << wrong.message;
    EXPECT_EQ(read.error().code, Code::kInvalidArgument);
    EXPECT_THAT(read.error().message, HasSubstr(wrong.message));
  }
}

}  // namespace
}  // namespace ucudnn
