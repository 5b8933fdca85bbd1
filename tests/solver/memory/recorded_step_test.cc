#include "solver/memory/recorded_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

// A link of 1 byte a nanosecond each way.
RecordedStep EmptyStep(std::size_t segments, std::int64_t ns,
                       std::int64_t bytes) {
  RecordedStep step;
  step.link.d2h_rate = step.link.h2d_rate = 1e3;
  for (std::size_t s = 0; s < segments; ++s) {
    step.segments.push_back({Nanoseconds(ns), Bytes(bytes), 2 * s >= segments});
  }
  return step;
}

// Runs a plan on a clock of its own, and notes what is wrong with it.
class Replay {
 public:
  Replay(const RecordedStep& step, const RecordedPlan& plan)
      : step_(step), plan_(plan), tensors_(step.tensors.size()) {}

  void Run() {
    std::size_t next = 0;
    for (std::size_t s = 0; s < step_.segments.size(); ++s) {
      for (; s > 0 && next < plan_.actions.size() &&
             plan_.actions[next].hook == s - 1;
           ++next) {
        Act(plan_.actions[next], s);
      }
      peak = std::max(peak, Present() + step_.segments[s].bytes);
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        const RecordedTensor& tensor = step_.tensors[i];
        const bool held =
            tensor.held > tensor.hook && s <= tensor.held && s > tensor.hook;
        const bool used = std::count(tensor.uses.begin(), tensor.uses.end(), s);
        if ((held || used) && !tensors_[i].there) {
          wrong += fmt::format("tensor {} is away in segment {}; ", i, s);
        }
        if (used) now_ = std::max(now_, tensors_[i].arrives);
      }
      now_ += step_.segments[s].time;
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (step_.tensors[i].hook == s) tensors_[i].there = true;
      }
    }
    if (next != plan_.actions.size()) wrong += "actions are not by hook; ";
    time = std::max({now_, out_, in_});
  }

  std::string wrong;
  Nanoseconds time{0};
  Bytes peak;
  int recomputed = 0;
  int moved = 0;

 private:
  struct State {
    bool there = false;
    std::optional<Nanoseconds> copied;
    Nanoseconds arrives{0};
  };

  Bytes Present() const {
    Bytes sum;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].there) sum += step_.tensors[i].bytes;
    }
    return sum;
  }

  void Act(const HookAction& action, std::size_t segment) {
    State& state = tensors_[action.tensor];
    const RecordedTensor& tensor = step_.tensors[action.tensor];
    const Nanoseconds link = step_.link.OffloadTime(tensor.bytes);
    const bool needs_it = action.action == SavedAction::kCopy ||
                          action.action == SavedAction::kFree ||
                          action.action == SavedAction::kDrop;
    if (state.there != needs_it) {
      wrong += fmt::format("{} of tensor {} before segment {}; ",
                           Name(action.action), action.tensor, segment);
    }
    switch (action.action) {
      case SavedAction::kCopy:
        out_ = std::max(out_, now_) + link;
        state.copied = out_;
        break;
      case SavedAction::kFree:
        if (!state.copied) wrong += "freed without a copy; ";
        now_ = std::max(now_, state.copied.value_or(now_));
        state.there = false;
        ++moved;
        break;
      case SavedAction::kFetch:
        if (!state.copied) wrong += "fetched without a copy; ";
        in_ = std::max(in_, now_) + link;
        state.arrives = in_;
        state.there = true;
        break;
      case SavedAction::kRecompute:
        for (const std::size_t read : tensor.recipe->reads) {
          if (!tensors_[read].there) wrong += "recomputed from nothing; ";
          now_ = std::max(now_, tensors_[read].arrives);
        }
        now_ += tensor.recipe->time;
        state.there = true;
        peak = std::max(peak, Present() + tensor.recipe->bytes);
        ++recomputed;
        break;
      case SavedAction::kDrop:
        state.there = false;
        break;
    }
  }

  const RecordedStep& step_;
  const RecordedPlan& plan_;
  std::vector<State> tensors_;
  Nanoseconds now_{0};
  Nanoseconds out_{0};
  Nanoseconds in_{0};
};

// Three layers: each hook saves 1024 bytes, which the backward pass needs in
// reverse.
RecordedStep Chain(std::int64_t ns) {
  RecordedStep step = EmptyStep(7, ns, 512);
  for (std::size_t i = 0; i < 3; ++i) {
    step.tensors.push_back({Bytes(1024), i, 0, {6 - i}});
  }
  return step;
}

TEST(RecordedStepTest, KeepsEverythingIfItFits) {
  const RecordedStep step = Chain(100);
  const RecordedPlan plan =
      PlanRecordedStep(step, {.budget = Bytes(4096)}).value();
  EXPECT_EQ(plan.time, Nanoseconds(700));
  EXPECT_EQ(plan.lower_bound, Nanoseconds(700));
  EXPECT_EQ(plan.peak, Bytes(512 + 3 * 1024));
  EXPECT_EQ(plan.plain_peak, plan.peak);
  EXPECT_EQ(plan.moved, Bytes(0));
  for (const HookAction& action : plan.actions) {
    EXPECT_EQ(action.action, SavedAction::kDrop);
  }
}

// Tensor 0 is saved first and needed last, so it leaves during segment 1 to 2
// and returns during 5: nothing waits if the link is quick enough.
TEST(RecordedStepTest, MovesTheOutermostTensorDuringTheSegments) {
  const RecordedStep step = Chain(2000);
  const RecordedPlan plan =
      PlanRecordedStep(step, {.budget = Bytes(512 + 2 * 1024)}).value();
  EXPECT_EQ(plan.time, Nanoseconds(14'000));
  EXPECT_EQ(plan.moved, Bytes(2048));
  EXPECT_EQ(plan.peak, Bytes(512 + 2 * 1024));
  const std::vector<HookAction> expected = {{SavedAction::kCopy, 0, 0},
                                            {SavedAction::kFree, 0, 1},
                                            {SavedAction::kDrop, 2, 4},
                                            {SavedAction::kFetch, 0, 4},
                                            {SavedAction::kDrop, 1, 5}};
  std::vector<HookAction> actions = plan.actions;
  EXPECT_EQ(actions.size(), expected.size());
  for (const HookAction& action : expected) {
    EXPECT_THAT(actions, ::testing::Contains(action))
        << Name(action.action) << " " << action.tensor << " in hook "
        << action.hook;
  }
}

TEST(RecordedStepTest, ComputesAgainWhatTheLinkIsTooSlowFor) {
  RecordedStep step = Chain(100);
  step.tensors[1].recipe = {Nanoseconds(30), Bytes(0), {0}};
  const RecordedRequest request{.budget = Bytes(512 + 2 * 1024)};
  const RecordedPlan plan = PlanRecordedStep(step, request).value();
  EXPECT_EQ(plan.time, Nanoseconds(730));
  EXPECT_EQ(plan.moved, Bytes(0));
  EXPECT_THAT(plan.actions,
              ::testing::Contains(HookAction{SavedAction::kRecompute, 1, 4}));
  RecordedRequest moving = request;
  moving.recompute = false;
  const RecordedPlan moved = PlanRecordedStep(step, moving).value();
  EXPECT_GT(moved.time, plan.time);
  EXPECT_GT(moved.moved, Bytes(0));
}

// Segment 6 has room for one tensor, segment 5 for the other, which is computed
// from it: a VGG network's first two activations.
TEST(RecordedStepTest, ComputesAgainWhatItWasComputedAgainFrom) {
  RecordedStep step = EmptyStep(7, 100, 0);
  step.tensors = {{Bytes(1024), 0, 1, {6}, {{Nanoseconds(20), Bytes(0), {}}}},
                  {Bytes(1024), 1, 0, {5}, {{Nanoseconds(50), Bytes(0), {0}}}},
                  {Bytes(256), 2, 0, {4}}};
  step.segments[3].bytes = step.segments[4].bytes = Bytes(2048);
  step.segments[5].bytes = step.segments[6].bytes = Bytes(1024);
  for (const bool offload : {true, false}) {
    const RecordedRequest request{.budget = Bytes(2304), .offload = offload};
    const RecordedPlan plan = PlanRecordedStep(step, request).value();
    EXPECT_EQ(plan.time, Nanoseconds(700 + 20 + 50 + 20));
    Replay replay(step, plan);
    replay.Run();
    EXPECT_EQ(replay.wrong, "");
    EXPECT_EQ(replay.recomputed, 3);
    EXPECT_EQ(replay.peak, request.budget);
  }
}

// Not where the tensor is made first, beside more tensors.
TEST(RecordedStepTest, CountsTheTemporaryMemoryOfARecipeWhereItRuns) {
  RecordedStep step = EmptyStep(7, 1000, 1024);
  for (std::size_t i = 0; i < 3; ++i) {
    step.tensors.push_back({Bytes(1024), i, 0, {4 + i}});
  }
  const RecordedRequest request{.budget = Bytes(3200), .offload = false};
  step.tensors[2].recipe = {Nanoseconds(10), Bytes(2000), {}};
  const auto plan = PlanRecordedStep(step, request);
  ASSERT_TRUE(plan) << plan.error().message;
  Replay replay(step, *plan);
  replay.Run();
  EXPECT_EQ(replay.wrong, "");
  EXPECT_EQ(replay.recomputed, 1);
  EXPECT_EQ(plan->peak, Bytes(3072));
  step.tensors[2].recipe->bytes = Bytes(2300);
  EXPECT_EQ(PlanRecordedStep(step, request).error().code,
            Code::kFailedPrecondition);
}

TEST(RecordedStepTest, NamesTheLeastBudget) {
  RecordedStep step = Chain(100);
  const auto least = [&](bool offload) {
    const auto plan = PlanRecordedStep(
        step,
        {.budget = Bytes(1000), .offload = offload, .recompute = !offload});
    EXPECT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
    return plan.error().message;
  };
  EXPECT_EQ(least(true),
            "budget_bytes: 1000; the least that is accepted is 1536");
  EXPECT_EQ(least(false),
            "budget_bytes: 1000; the least that is accepted is 3584");
  EXPECT_TRUE(PlanRecordedStep(step, {.budget = Bytes(1536)}));
}

TEST(RecordedStepTest, SaysThatItWasCutOff) {
  RecordedStep step = Chain(100);
  step.tensors[1].recipe = {Nanoseconds(30), Bytes(0), {0}};
  std::stop_source stop;
  RecordedRequest request{.budget = Bytes(512 + 2 * 1024)};
  request.stop = stop.get_token();
  EXPECT_FALSE(PlanRecordedStep(step, request).value().cut_off);
  stop.request_stop();
  const auto plan = PlanRecordedStep(step, request);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->cut_off);
  // All fits at once: nothing is faster.
  request.budget = Bytes(4096);
  EXPECT_FALSE(PlanRecordedStep(step, request).value().cut_off);
  request.budget = Bytes(1000);
  EXPECT_THAT(PlanRecordedStep(step, request).error().message,
              HasSubstr("cut off, so less may do"));
}

TEST(RecordedStepTest, RefusesWhatContradictsItself) {
  const auto why = [](const RecordedStep& step) {
    const auto plan = PlanRecordedStep(step, {.budget = Bytes(4096)});
    EXPECT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
    return plan.error().message;
  };
  RecordedStep step = Chain(100);
  step.tensors[1].uses = {1};
  EXPECT_EQ(why(step), "tensors[1].uses: 1; 2 to 6, rising is accepted");
  step = Chain(100);
  step.tensors[2].hook = 6;
  EXPECT_EQ(why(step), "tensors[2].hook: 6; 0 to 5 is accepted");
  step = Chain(100);
  step.tensors[1].recipe = {Nanoseconds(1), Bytes(0), {1}};
  EXPECT_EQ(why(step),
            "tensors[1].recipe.reads: 1; a tensor that comes before is "
            "accepted");
  step = Chain(100);
  step.tensors[0].uses.clear();
  EXPECT_THAT(why(step), HasSubstr("tensors[0].uses: []"));
  step.segments.clear();
  EXPECT_THAT(why(step), HasSubstr("segments: 0 of them"));
}

RecordedStep RandomStep(std::mt19937* random, std::size_t tensors) {
  const auto upto = [&](std::int64_t most) {
    return static_cast<std::int64_t>((*random)() %
                                     static_cast<std::uint64_t>(most + 1));
  };
  RecordedStep step = EmptyStep(2 * tensors + 2, 0, 0);
  if (upto(1) == 0) step.link.d2h_rate = step.link.h2d_rate = 150;
  for (RecordedSegment& segment : step.segments) {
    segment.time = Nanoseconds(100 + upto(1500));
    segment.bytes = Bytes(256 * upto(4));
  }
  for (std::size_t i = 0; i < tensors; ++i) {
    RecordedTensor& tensor = step.tensors.emplace_back();
    tensor.bytes = Bytes(256 * (1 + upto(4)));
    tensor.hook = i;
    step.segments[i].bytes += tensor.bytes;  // which makes it
    tensor.held = upto(2) == 0 ? i + 1 : 0;
    tensor.uses = {2 * tensors + 1 - i};
    if (upto(2) > 0) continue;
    tensor.recipe = {Nanoseconds(upto(90)), Bytes(0), {}};
    if (i > 0) {
      const auto read =
          static_cast<std::size_t>(upto(static_cast<std::int64_t>(i) - 1));
      tensor.recipe->reads = {read};
      step.tensors[read].held = i;
    }
  }
  return step;
}

// The least time of all ways to keep, move or recompute the tensors, each with
// one use, where copies start at once; none if nothing fits.
class AllWays {
 public:
  AllWays(const RecordedStep& step, Bytes budget)
      : step_(step), budget_(budget), ways_(step.tensors.size()) {}

  std::optional<Nanoseconds> Least() {
    Choose(0);
    return least_;
  }

 private:
  // Away before segments from `freed` to before `fetched`; both 0: kept.
  struct Way {
    std::size_t freed = 0;
    std::size_t fetched = 0;
    bool recompute = false;
  };

  void Choose(std::size_t i) {
    if (i == ways_.size()) return Try();
    const RecordedTensor& tensor = step_.tensors[i];
    ways_[i] = {};
    Choose(i + 1);
    const std::size_t first = std::max(tensor.hook, tensor.held) + 1;
    const std::size_t use = tensor.uses.front();
    for (std::size_t freed = first; freed < use; ++freed) {
      for (std::size_t fetched = freed + 1; fetched <= use; ++fetched) {
        ways_[i] = {freed, fetched, false};
        Choose(i + 1);
      }
    }
    if (tensor.recipe) {
      ways_[i] = {first, use, true};
      Choose(i + 1);
    }
    ways_[i] = {};
  }

  // Sources that are computed again are so once more: their use comes later.
  void Recompute(std::size_t i, std::size_t segment, RecordedPlan* plan) const {
    std::vector<std::size_t> recomputed;
    for (const std::size_t read : step_.tensors[i].recipe->reads) {
      if (ways_[read].recompute) recomputed.push_back(read);
    }
    for (const std::size_t read : recomputed) Recompute(read, segment, plan);
    plan->actions.push_back({SavedAction::kRecompute, i, segment - 1});
    for (const std::size_t read : recomputed) {
      plan->actions.push_back({SavedAction::kDrop, read, segment - 1});
    }
  }

  void Try() {
    RecordedPlan plan;
    for (std::size_t s = 1; s < step_.segments.size(); ++s) {
      const auto each = [&](auto act) {
        for (std::size_t i = 0; i < ways_.size(); ++i) act(i, ways_[i]);
      };
      const auto add = [&](SavedAction action, std::size_t i) {
        plan.actions.push_back({action, i, s - 1});
      };
      each([&](std::size_t i, const Way& way) {
        if (way.freed > 0 && !way.recompute && step_.tensors[i].hook == s - 1) {
          add(SavedAction::kCopy, i);
        }
        // Kept until the recipes that read it have run.
        std::size_t last = step_.tensors[i].uses.front();
        for (std::size_t j = i + 1; j < ways_.size(); ++j) {
          const auto& recipe = step_.tensors[j].recipe;
          if (ways_[j].recompute &&
              std::count(recipe->reads.begin(), recipe->reads.end(), i) > 0) {
            last = std::max(last, step_.tensors[j].uses.front());
          }
        }
        if (s == last + 1) add(SavedAction::kDrop, i);
        if (way.freed == s) {
          add(way.recompute ? SavedAction::kDrop : SavedAction::kFree, i);
        }
      });
      each([&](std::size_t i, const Way& way) {
        if (way.fetched == s && !way.recompute) add(SavedAction::kFetch, i);
      });
      each([&](std::size_t i, const Way& way) {
        if (way.fetched == s && way.recompute) Recompute(i, s, &plan);
      });
    }
    Replay replay(step_, plan);
    replay.Run();
    if (!replay.wrong.empty() || replay.peak > budget_) return;
    if (!least_ || replay.time < *least_) least_ = replay.time;
  }

  const RecordedStep& step_;
  const Bytes budget_;
  std::vector<Way> ways_;
  std::optional<Nanoseconds> least_;
};

TEST(RecordedStepTest, IsAsFastAsTheFastestOfAllWays) {
  std::mt19937 random(5);
  int planned = 0;
  int equal = 0;
  for (int trial = 0; trial < Trials(120); ++trial) {
    const RecordedStep step = RandomStep(&random, 3);
    const std::int64_t plain =
        PlanRecordedStep(step, {.budget = Bytes(1 << 20)})
            .value()
            .plain_peak.count();
    const Bytes budget(plain * (6 + trial % 4) / 10);
    SCOPED_TRACE(trial);
    const auto least = AllWays(step, budget).Least();
    const auto plan = PlanRecordedStep(step, {.budget = budget});
    if (!plan) {
      EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
      EXPECT_FALSE(least) << plan.error().message;
      continue;
    }
    ASSERT_TRUE(least);
    ++planned;
    equal += plan->time <= *least ? 1 : 0;
    EXPECT_LE(plan->lower_bound, *least);
    EXPECT_LE(plan->time.count(), least->count() * 110 / 100);
  }
  EXPECT_GT(planned, Trials(60));
  EXPECT_GE(equal * 100, planned * 90);
}

// Of longer steps, that the plan does what it says.
TEST(RecordedStepTest, DoesWhatItSaysWithinTheBudget) {
  std::mt19937 random(9);
  int recomputed = 0;
  int moved = 0;
  for (int trial = 0; trial < Trials(40); ++trial) {
    const RecordedStep step = RandomStep(&random, 12);
    const std::int64_t plain =
        PlanRecordedStep(step, {.budget = Bytes(1 << 20)})
            .value()
            .plain_peak.count();
    const RecordedRequest request{.budget = Bytes(plain * (5 + trial % 5) / 10),
                                  .recompute = trial % 3 > 0};
    const auto plan = PlanRecordedStep(step, request);
    if (!plan) continue;
    SCOPED_TRACE(trial);
    Replay replay(step, *plan);
    replay.Run();
    EXPECT_EQ(replay.wrong, "");
    EXPECT_LE(replay.peak, request.budget);
    EXPECT_EQ(replay.peak, plan->peak);
    // A copy that turns out to be needless is not waited for.
    EXPECT_LE(replay.time.count(), plan->time.count() * 101 / 100);
    EXPECT_GE(plan->time, plan->lower_bound);
    recomputed += replay.recomputed;
    moved += replay.moved;
  }
  EXPECT_GT(recomputed, Trials(10));
  EXPECT_GT(moved, Trials(100));
}

TEST(RecordedStepTest, NamesALeastBudgetThatTimesDoNotChange) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    RecordedStep step = RandomStep(&random, 10);
    const RecordedRequest nothing{.budget = Bytes(1)};
    const auto least = PlanRecordedStep(step, nothing).error().least.value();
    for (RecordedSegment& segment : step.segments) {
      segment.time = Nanoseconds(1 + random() % 5000);
    }
    for (RecordedTensor& tensor : step.tensors) {
      if (tensor.recipe) tensor.recipe->time = Nanoseconds(random() % 500);
    }
    step.link.h2d_rate = 300;
    EXPECT_EQ(PlanRecordedStep(step, nothing).error().least, least);
    EXPECT_TRUE(PlanRecordedStep(step, {.budget = Bytes(least)}));
  }
}

TEST(RecordedStepTest, PlansAStepWithoutBytesWithinNone) {
  RecordedStep step = Chain(100);
  for (RecordedSegment& segment : step.segments) segment.bytes = Bytes(0);
  for (RecordedTensor& tensor : step.tensors) tensor.bytes = Bytes(0);
  EXPECT_EQ(PlanRecordedStep(step, {.budget = Bytes(1)})->time,
            Nanoseconds(700));
}

// The framework makes tensor 2 while it has all that this takes, whatever a
// recipe would read.
TEST(RecordedStepTest, ReadsWhatARecipeReadsOnlyWhereItRuns) {
  RecordedStep step = EmptyStep(13, 1'000'000, 0);
  step.tensors = {{Bytes(1024), 0, 1, {12}},
                  {Bytes(1024), 2, 3, {10}},
                  {Bytes(1024), 5, 6, {8}, {{Nanoseconds(10), Bytes(0), {0}}}}};
  for (const bool recompute : {false, true}) {
    const RecordedRequest request{.budget = Bytes(1024),
                                  .recompute = recompute};
    const auto plan = PlanRecordedStep(step, request);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->time, plan->ideal_time);
    EXPECT_EQ(plan->moved, Bytes(4 * 1024));  // tensors 0 and 1
  }
}

// What plans of any step obey, though no optimum is known.
class LawsOf {
 public:
  struct Ways {
    bool offload = false;
    bool recompute = false;
  };
  static constexpr std::array<Ways, 4> kWays = {
      {{false, false}, {true, false}, {false, true}, {true, true}}};
  static constexpr std::array<std::pair<std::size_t, std::size_t>, 4> kMore = {
      {{0, 1}, {0, 2}, {1, 3}, {2, 3}}};

  explicit LawsOf(const RecordedStep& step) : step_(step), bare_(step) {
    for (RecordedTensor& tensor : bare_.tensors) tensor.recipe.reset();
    for (std::size_t w = 0; w < kWays.size(); ++w) {
      least_[w] = LeastOf(step_, kWays[w]);
    }
  }

  void LeastBudgets() const {
    for (std::size_t w = 0; w < kWays.size(); ++w) {
      SCOPED_TRACE(w);
      EXPECT_TRUE(Plan(step_, kWays[w], least_[w]));
      EXPECT_FALSE(Plan(step_, kWays[w], least_[w] - Bytes(1)));
    }
    for (const auto& [few, many] : kMore) {
      EXPECT_LE(least_[many], least_[few]) << few << " and " << many;
    }
  }

  void RecipesThatMayNotBeUsed() const {
    for (const std::size_t w : {0u, 1u}) {
      EXPECT_EQ(LeastOf(bare_, kWays[w]), least_[w]);
      const Bytes budget = least_[w] + Bytes(512);
      EXPECT_EQ(Plan(bare_, kWays[w], budget)->time,
                Plan(step_, kWays[w], budget)->time);
    }
  }

  void Times() const {
    for (std::size_t w = 0; w < kWays.size(); ++w) {
      SCOPED_TRACE(w);
      Nanoseconds last = Nanoseconds::max();
      for (const std::int64_t quarters : {4, 5, 6, 8, 16}) {
        const Bytes budget(least_[w].count() * quarters / 4);
        const auto plan = Plan(step_, kWays[w], budget);
        ASSERT_TRUE(plan) << plan.error().message;
        EXPECT_LE(plan->lower_bound, plan->time);
        EXPECT_LE(plan->peak, budget);
        EXPECT_LE(plan->time, last);
        last = plan->time;
        for (const auto& [few, many] : kMore) {
          if (few == w) MoreWays(kWays[many], budget, plan->time);
        }
      }
      EXPECT_EQ(Plan(step_, kWays[w], Bytes(1 << 20))->time,
                Plan(step_, kWays[w], Bytes(1 << 20))->ideal_time);
    }
  }

 private:
  static Result<RecordedPlan> Plan(const RecordedStep& step, Ways ways,
                                   Bytes budget) {
    return PlanRecordedStep(step, {.budget = budget,
                                   .offload = ways.offload,
                                   .recompute = ways.recompute});
  }

  static Bytes LeastOf(const RecordedStep& step, Ways ways) {
    const auto plan = Plan(step, ways, Bytes(1));
    return Bytes(plan ? 1 : plan.error().least.value());
  }

  void MoreWays(Ways ways, Bytes budget, Nanoseconds time_of_fewer) const {
    const auto plan = Plan(step_, ways, budget);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE(plan->time, time_of_fewer);
    EXPECT_LE(plan->lower_bound, time_of_fewer);
  }

  const RecordedStep& step_;
  RecordedStep bare_;
  std::array<Bytes, kWays.size()> least_;
};

TEST(RecordedStepTest, MoreWaysAndMoreMemoryNeverCost) {
  std::mt19937 random(3);
  for (int trial = 0; trial < Trials(30); ++trial) {
    const RecordedStep step =
        RandomStep(&random, static_cast<std::size_t>(2 + trial % 7));
    SCOPED_TRACE(trial);
    const LawsOf laws(step);
    laws.LeastBudgets();
    laws.RecipesThatMayNotBeUsed();
    laws.Times();
  }
}

}  // namespace
}  // namespace ucudnn
