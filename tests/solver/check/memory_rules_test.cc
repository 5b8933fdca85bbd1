// Rules R1 to R24 of memory plans, each broken on purpose in plans that keep
// them all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "solver/check/memory_plan.h"
#include "tests/solver/memory/plan_mutations.h"
#include "tests/solver/memory/small_graphs.h"

namespace ucudnn {
namespace {

using ::testing::Contains;
using ::testing::StartsWith;

using Events = std::vector<MemoryEvent>;

struct Case {
  std::string what;
  int rule = 0;
  std::function<void(MemoryPlan&, const TrainingGraph&)> damage;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << "R" << c.rule << " " << c.what;
  }
};

// The first event, or the last, with this operation that `admits`.
template <class Admits>
std::size_t First(const MemoryPlan& plan, EventOp op, Admits admits) {
  const Events& events = plan.rounds.back().events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].op == op && admits(events[i])) return i;
  }
  ADD_FAILURE() << "the plan has no such " << Name(op);
  return 0;
}
std::size_t First(const MemoryPlan& plan, EventOp op) {
  return First(plan, op, [](const MemoryEvent&) { return true; });
}
std::size_t Last(const MemoryPlan& plan, EventOp op) {
  const Events& events = plan.rounds.back().events;
  for (std::size_t i = events.size(); i-- > 0;) {
    if (events[i].op == op) return i;
  }
  ADD_FAILURE() << "the plan has no " << Name(op);
  return 0;
}

MemoryEvent& FirstEvent(MemoryPlan& plan, EventOp op) {
  return plan.rounds.back().events[First(plan, op)];
}

std::size_t FirstWithWorkspace(const MemoryPlan& plan) {
  return First(plan, EventOp::kCompute, [](const MemoryEvent& event) {
    return event.range.bytes > Bytes(0);
  });
}

// Puts a copy of event `i`, on `stream`, behind it.
void Repeat(MemoryPlan& plan, std::size_t i, MemoryStream stream) {
  MemoryRound& round = plan.rounds.back();
  MemoryEvent copy = round.events[i];
  copy.stream = stream;
  for (MemoryEvent& event : round.events) {
    for (std::size_t& after : event.after) after += after > i ? 1 : 0;
  }
  round.events.insert(round.events.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                      copy);
  test::Retime(&round);
}
void Repeat(MemoryPlan& plan, std::size_t i) {
  Repeat(plan, i, plan.rounds.back().events[i].stream);
}

// What waited for event `i` waits for what it waited for.
void Remove(MemoryPlan& plan, std::size_t i) {
  MemoryRound& round = plan.rounds.back();
  const MemoryEvent removed = round.events[i];
  round.events.erase(round.events.begin() + static_cast<std::ptrdiff_t>(i));
  for (MemoryEvent& event : round.events) {
    std::set<std::size_t> after(event.after.begin(), event.after.end());
    if (after.erase(i) > 0) {
      after.insert(removed.after.begin(), removed.after.end());
    }
    event.after.clear();
    for (const std::size_t other : after) {
      event.after.push_back(other > i ? other - 1 : other);
    }
  }
  test::Retime(&round);
}

// Appends an event that waits for all others.
void Append(MemoryPlan& plan, MemoryEvent event) {
  MemoryRound& round = plan.rounds.back();
  event.after.clear();
  for (std::size_t i = 0; i < round.events.size(); ++i) {
    event.after.push_back(i);
  }
  round.events.push_back(std::move(event));
  test::Retime(&round);
}

std::size_t BlockOf(const TrainingGraph& graph, BlockKind kind) {
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) {
    if (graph.blocks[b].kind == kind) return b;
  }
  ADD_FAILURE() << "the graph has no such block";
  return 0;
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"no rounds", 1, [](auto& p, auto&) { p.rounds.clear(); }},
      {"no alignment", 1, [](auto& p, auto&) { p.alignment = Bytes(0); }},
      {"a round that never runs", 1,
       [](auto& p, auto&) { p.rounds.back().count = 0; }},
      {"more images than the mini-batch", 1,
       [](auto& p, auto&) { p.rounds.push_back(p.rounds.back()); }},
      {"two last rounds", 1,
       [](auto& p, auto& g) {
         p.rounds.back().batch = BatchSize(g.batch.count() / 2);
         p.rounds.back().count = 2;
       }},
      {"a resident block of another graph", 1,
       [](auto& p, auto& g) { p.resident[0].block = g.blocks.size(); }},
      {"an operation that does not exist", 2,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kSync).op = static_cast<EventOp>(6);
       }},
      {"a task of another graph", 2,
       [](auto& p, auto& g) {
         FirstEvent(p, EventOp::kCompute).task = g.tasks.size();
       }},
      {"a block of another graph", 2,
       [](auto& p, auto& g) {
         FirstEvent(p, EventOp::kAlloc).block = g.blocks.size();
       }},
      {"a task on the link", 2,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kCompute).stream = MemoryStream::kD2h;
       }},
      {"a transfer among the tasks", 2,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kOffload).stream = MemoryStream::kCompute;
       }},
      {"an allocation that takes time", 2,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kAlloc).duration = Nanoseconds(1);
       }},
      {"a wait for a later event", 3,
       [](auto& p, auto&) { p.rounds.back().events[0].after = {1}; }},
      {"a start too late", 4,
       [](auto& p, auto&) {
         p.rounds.back().events.back().start += Nanoseconds(1);
       }},
      {"events out of order", 5,
       [](auto& p, auto&) {
         auto& late = p.rounds.back().events.emplace_back();
         late.stream = MemoryStream::kH2d;
       }},
      {"an algorithm without a cost", 6,
       [](auto& p, auto&) {
         auto& event = FirstEvent(p, EventOp::kCompute);
         event.parts = {{p.rounds.back().batch, 1, "NO_SUCH"}};
       }},
      {"a part that never runs", 6,
       [](auto& p, auto&) {
         auto& event = FirstEvent(p, EventOp::kCompute);
         event.parts = {{p.rounds.back().batch, 0, ""}};
       }},
      {"parts with too few images", 6,
       [](auto& p, auto&) {
         auto& event = FirstEvent(p, EventOp::kCompute);
         event.parts = {{BatchSize(p.rounds.back().batch.count() / 2), 1, ""}};
       }},
      {"a transfer of too few bytes", 7,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kOffload).range.bytes -= Bytes(1);
       }},
      {"a transfer too fast", 7,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kPrefetch).duration -= Nanoseconds(1);
         test::Retime(&p.rounds.back());
       }},
      {"a task too fast", 7,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kCompute).duration -= Nanoseconds(1);
         test::Retime(&p.rounds.back());
       }},
      {"too little workspace", 8,
       [](auto& p, auto&) {
         p.rounds.back().events[FirstWithWorkspace(p)].range.bytes -= Bytes(1);
       }},
      {"two transfers at once", 9,
       [](auto& p, auto&) {
         Repeat(p, First(p, EventOp::kOffload), MemoryStream::kD2h);
       }},
      {"a resident block twice", 10,
       [](auto& p, auto&) { p.resident.push_back(p.resident[0]); }},
      {"a feature map that is resident", 10,
       [](auto& p, auto& g) {
         p.resident[0].block = BlockOf(g, BlockKind::kActivation);
       }},
      {"a resident block cut short", 11,
       [](auto& p, auto&) { p.resident[0].range.bytes -= Bytes(1); }},
      {"a block cut short", 11,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kAlloc).range.bytes = Bytes(1);
       }},
      {"a block between two multiples of the alignment", 11,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kAlloc).range.offset += Bytes(1);
       }},
      {"a workspace between two multiples of the alignment", 11,
       [](auto& p, auto&) {
         p.rounds.back().events[FirstWithWorkspace(p)].range.offset += Bytes(1);
       }},
      {"a budget below the peak", 12,
       [](auto& p, auto&) { p.budget = p.peak - Bytes(1); }},
      {"a block before the pool", 12,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kAlloc).range.offset = Bytes(0) - p.alignment;
       }},
      {"a block over a resident one", 13,
       [](auto& p, auto&) {
         FirstEvent(p, EventOp::kAlloc).range.offset =
             p.resident[0].range.offset;
       }},
      {"a block allocated twice", 15,
       [](auto& p, auto&) { Repeat(p, First(p, EventOp::kAlloc)); }},
      {"a block released twice", 15,
       [](auto& p, auto&) { Repeat(p, First(p, EventOp::kFree)); }},
      {"a task whose block was never allocated", 17,
       [](auto& p, auto&) { Remove(p, First(p, EventOp::kAlloc)); }},
      {"a task that never runs", 19,
       [](auto& p, auto&) { Remove(p, Last(p, EventOp::kCompute)); }},
      {"an update that runs twice", 19,
       [](auto& p, auto&) { Repeat(p, Last(p, EventOp::kCompute)); }},
      {"a prefetch of what never left", 20,
       [](auto& p, auto& g) {
         // An input's copy is on the host from the start.
         Remove(p, First(p, EventOp::kOffload, [&](const MemoryEvent& e) {
                  return g.blocks[e.block].kind != BlockKind::kInput;
                }));
       }},
      {"a task that reads what never came back", 20,
       [](auto& p, auto&) { Remove(p, First(p, EventOp::kPrefetch)); }},
      {"a weight that is released", 21,
       [](auto& p, auto& g) {
         MemoryEvent free;
         free.op = EventOp::kFree;
         free.block = BlockOf(g, BlockKind::kWeight);
         Append(p, std::move(free));
       }},
      {"a block that is never released", 22,
       [](auto& p, auto&) { Remove(p, Last(p, EventOp::kFree)); }},
      {"a round longer than its events", 23,
       [](auto& p, auto&) { p.rounds.back().time += Nanoseconds(1); }},
      {"a time too long", 23, [](auto& p, auto&) { p.time += Nanoseconds(1); }},
      {"a stall too short", 23,
       [](auto& p, auto&) { p.stall -= Nanoseconds(1); }},
      {"a peak too low", 23, [](auto& p, auto&) { p.peak -= Bytes(1); }},
      {"a load too low", 23, [](auto& p, auto&) { p.load -= Bytes(1); }},
      {"too little on the host", 23,
       [](auto& p, auto&) { p.host -= Bytes(1); }},
      {"too little offloaded", 23,
       [](auto& p, auto&) { p.offloaded -= Bytes(1); }},
      {"too little prefetched", 23,
       [](auto& p, auto&) { p.prefetched -= Bytes(1); }},
      {"an ideal time too short", 23,
       [](auto& p, auto&) { *p.ideal_time -= Nanoseconds(1); }},
      {"an ideal size too small", 23,
       [](auto& p, auto&) { *p.ideal_bytes -= Bytes(1); }},
      {"a bound above the time", 24,
       [](auto& p, auto&) { p.lower_bound = p.time + Nanoseconds(1); }},
      {"a bound above the peak", 24,
       [](auto& p, auto&) { p.lower_bound_bytes = p.peak + Bytes(1); }},
  };
  return cases;
}

// With transfers, synchronisations and workspaces.
MemoryPlan GoodPlan(const TrainingGraph& graph) {
  Result<MemoryPlan> plan =
      PlanMemory(graph, {.budget = test::PeakOf(graph) * 2},
                 *FindMemoryPolicy("vdnn-all-p").value());
  EXPECT_TRUE(plan) << plan.error().message;
  return *std::move(plan);
}

class MemoryRulesTest : public ::testing::TestWithParam<Case> {};

TEST_P(MemoryRulesTest, ABrokenRuleIsNamed) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(16));
  MemoryPlan plan = GoodPlan(graph);
  ASSERT_TRUE(ValidateMemoryPlan(plan, graph));
  GetParam().damage(plan, graph);
  const Status verdict = ValidateMemoryPlan(plan, graph);
  ASSERT_FALSE(verdict);
  EXPECT_THAT(verdict.error().message,
              StartsWith("R" + std::to_string(GetParam().rule) + " "));
}

INSTANTIATE_TEST_SUITE_P(Rules, MemoryRulesTest, ::testing::ValuesIn(Cases()));

TEST(MemoryRulesTest, WeightsAreUpdatedInTheLastRoundOnly) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(16));
  MemoryRequest request;
  request.budget = test::PeakOf(graph);
  request.sub_batch = BatchSize(8);
  Result<MemoryPlan> plan =
      PlanMemory(graph, request, *FindMemoryPolicy("baseline").value());
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->rounds.size(), 2u);
  plan->rounds[0].events = plan->rounds[1].events;
  plan->rounds[0].time = plan->rounds[1].time;
  const Status verdict = ValidateMemoryPlan(*plan, graph);
  ASSERT_FALSE(verdict);
  EXPECT_THAT(verdict.error().message, StartsWith("R19 "));
}

// Takes each wait of the last round away, alone, and adds the rules that this
// breaks.
void BreakWaits(const MemoryPlan& plan, const TrainingGraph& graph,
                std::set<std::string>* broken) {
  const Events& events = plan.rounds.back().events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    for (std::size_t w = 0; w < events[i].after.size(); ++w) {
      MemoryPlan mutant = plan;
      auto& after = mutant.rounds.back().events[i].after;
      after.erase(after.begin() + static_cast<std::ptrdiff_t>(w));
      test::Retime(&mutant.rounds.back());
      Summarise(graph, &mutant);
      if (const Status verdict = ValidateMemoryPlan(mutant, graph); !verdict) {
        const std::string& message = verdict.error().message;
        broken->insert(message.substr(0, message.find(' ')));
      }
    }
  }
}

// Rules that only waits keep.
TEST(MemoryRulesTest, WaitsAreMissed) {
  std::set<std::string> broken;
  for (const TrainingGraph& graph : test::SmallGraphs(16)) {
    for (const char* policy : {"vdnn-ext-all-m", "vdnn-ext", "best"}) {
      MemoryRequest request;
      request.budget = test::PeakOf(graph) * 3 / 4;
      request.allocator = MemoryAllocator::kStatic;
      const Result<MemoryPlan> plan =
          PlanMemory(graph, request, *FindMemoryPolicy(policy).value());
      if (plan) BreakWaits(*plan, graph, &broken);
    }
  }
  for (const char* rule : {"R14", "R15", "R16", "R17", "R18"}) {
    EXPECT_THAT(broken, Contains(rule));
  }
}

}  // namespace
}  // namespace ucudnn
