#include "solver/arena/ws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "solver/check/validate.h"
#include "solver/micro_batch/pareto.h"
#include "tests/solver/instances.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using test::Draw;
using test::InstanceShape;
using test::kPolicies;
using test::Point;
using test::Random;
using test::RandomKernel;
using ::testing::HasSubstr;
using Kind = Concurrency::Kind;

// A random tree over the leaves [first, last).
std::size_t Grow(Random& random, std::size_t first, std::size_t last,
                 Concurrency* c) {
  if (last - first == 1) {
    c->nodes.push_back({Kind::kLeaf, first, {}});
    return c->nodes.size() - 1;
  }
  Concurrency::Node node;
  node.kind = Draw(random, 0, 1) == 0 ? Kind::kSerial : Kind::kParallel;
  while (first < last) {
    const auto next = static_cast<std::size_t>(
        Draw(random, static_cast<std::int64_t>(first) + 1,
             static_cast<std::int64_t>(last)));
    node.parts.push_back(Grow(random, first, next, c));
    first = next;
  }
  if (node.parts.size() == 1) return node.parts[0];
  c->nodes.push_back(std::move(node));
  return c->nodes.size() - 1;
}

Profile RandomProfile(Random& random, std::size_t kernels,
                      const InstanceShape& shape, BatchSize batch,
                      BatchPolicy policy) {
  Profile profile;
  while (profile.kernels.size() < kernels) {
    KernelProfile kernel = RandomKernel(
        random, shape, "conv" + std::to_string(profile.kernels.size()));
    if (SmallestLimit(kernel.points, batch, policy).has_value()) {
      profile.kernels.push_back(std::move(kernel));
    }
  }
  return profile;
}

// The least total time over all choices of front points for which no set of
// kernels that may all coincide needs more than `limit`.
std::optional<std::int64_t> BestByEnumeration(const Profile& profile,
                                              const Concurrency& concurrency,
                                              const WrRequest& request) {
  const std::size_t n = profile.kernels.size();
  std::vector<std::vector<FrontPoint>> fronts;
  for (const KernelProfile& kernel : profile.kernels) {
    const auto front = SolvePareto(kernel.points, request);
    if (!front) return std::nullopt;
    fronts.push_back(front->points());
  }
  std::vector<std::vector<bool>> together(n, std::vector<bool>(n, false));
  for (const auto& [a, b] : ConcurrentPairs(concurrency)) {
    together[a][b] = together[b][a] = true;
  }
  std::vector<std::uint32_t> sets;  // of kernels that may all coincide
  for (std::uint32_t set = 1; set < (1U << n); ++set) {
    bool all = true;
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (((set >> a) & (set >> b) & 1U) != 0 && !together[a][b]) all = false;
      }
    }
    if (all) sets.push_back(set);
  }
  std::optional<std::int64_t> best;
  std::vector<std::size_t> choice(n, 0);
  for (;;) {
    std::int64_t time = 0;
    for (std::size_t k = 0; k < n; ++k) {
      time += fronts[k][choice[k]].time.count();
    }
    const bool fits =
        std::all_of(sets.begin(), sets.end(), [&](std::uint32_t set) {
          std::int64_t need = 0;
          for (std::size_t k = 0; k < n; ++k) {
            if (((set >> k) & 1U) != 0) {
              need += fronts[k][choice[k]].workspace.count();
            }
          }
          return need <= request.workspace_limit.count();
        });
    if (fits && (!best.has_value() || time < *best)) best = time;
    std::size_t k = 0;
    while (k < n && ++choice[k] == fronts[k].size()) choice[k++] = 0;
    if (k == n) return best;
  }
}

TEST(WsTest, EqualsExhaustiveEnumeration) {
  Random random(31);
  int solved = 0;
  for (int i = 0; i < Trials(2500); ++i) {
    const BatchSize batch(Draw(random, 1, 6));
    const BatchPolicy policy = kPolicies[static_cast<std::size_t>(i) % 3];
    const auto kernels = static_cast<std::size_t>(Draw(random, 1, 6));
    const Profile profile = RandomProfile(
        random, kernels, {.max_batch = 6, .max_points_per_batch = 3}, batch,
        policy);
    Concurrency concurrency;
    Grow(random, 0, kernels, &concurrency);
    const WrRequest request{batch, Bytes(Draw(random, 0, 40)), policy};
    const auto plan = SolveWs(profile, concurrency, request);
    const auto best = BestByEnumeration(profile, concurrency, request);
    ASSERT_EQ(plan.has_value(), best.has_value()) << i;
    if (!plan) {
      EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
      continue;
    }
    ++solved;
    EXPECT_EQ(plan->total_time.count(), *best) << i;
    EXPECT_TRUE(plan->optimal);
    const auto pairs = ConcurrentPairs(concurrency);
    const Status valid =
        ValidatePlan(*plan, profile, {WorkspaceMode::kShared, policy, pairs});
    ASSERT_TRUE(valid) << valid.error().message;
    WrRequest undivided = request;
    undivided.policy = BatchPolicy::kUndivided;
    const auto plain = BestByEnumeration(profile, concurrency, undivided);
    EXPECT_TRUE(!plan->undivided_time.has_value() ||
                plan->undivided_time->count() == plain);
  }
  EXPECT_GT(solved, Trials(1000));
}

TEST(WsTest, IsWorkspaceReuseOnAChain) {
  Random random(32);
  for (int i = 0; i < Trials(2000); ++i) {
    const BatchSize batch(Draw(random, 1, 12));
    const BatchPolicy policy = kPolicies[static_cast<std::size_t>(i) % 3];
    const Profile profile = RandomProfile(
        random, 4, {.max_batch = 12, .max_spread = i % 2 * 5}, batch, policy);
    const WrRequest request{batch, Bytes(Draw(random, 0, 12)), policy};
    const auto reuse = SolveWr(profile, request);
    const auto shared = SolveWs(profile, Chain(4), request);
    ASSERT_EQ(reuse.has_value(), shared.has_value());
    if (!reuse) continue;
    EXPECT_EQ(shared->total_time, reuse->total_time);
    EXPECT_EQ(shared->lower_bound, reuse->lower_bound);
    EXPECT_EQ(shared->undivided_time, reuse->undivided_time);
    Bytes extent;
    for (std::size_t k = 0; k < 4; ++k) {
      KernelPlan kernel = reuse->kernels[k];
      kernel.offset = Bytes(0);
      EXPECT_EQ(shared->kernels[k], kernel);
      extent = std::max(extent, kernel.workspace);
    }
    EXPECT_EQ(shared->total_workspace, extent);
  }
}

TEST(WsTest, IsNeverSlowerWithMoreWorkspaceOrLessConcurrency) {
  Random random(33);
  for (int i = 0; i < Trials(1500); ++i) {
    const BatchSize batch(Draw(random, 1, 8));
    const Profile profile =
        RandomProfile(random, 5, {.max_batch = 8}, batch, BatchPolicy::kAll);
    Concurrency concurrency;
    Grow(random, 0, 5, &concurrency);
    Nanoseconds last = Nanoseconds::max();
    for (std::int64_t limit = 0; limit <= 60; limit += 6) {
      const WrRequest request{batch, Bytes(limit)};
      const auto time = [&](const Concurrency& c) {
        const auto plan = SolveWs(profile, c, request);
        return plan ? plan->total_time : Nanoseconds::max();
      };
      const Nanoseconds here = time(concurrency);
      EXPECT_LE(here, last);
      EXPECT_LE(time(Chain(5)), here);
      EXPECT_LE(here, time(AllConcurrent(5)));
      last = here;
    }
  }
}

TEST(WsTest, IsNeverSlowerThanAnEqualPartForEachKernel) {
  Random random(37);
  int compared = 0;
  for (int i = 0; i < Trials(1500); ++i) {
    const BatchSize batch(Draw(random, 1, 8));
    const auto kernels = static_cast<std::size_t>(Draw(random, 1, 7));
    const Profile profile = RandomProfile(
        random, kernels, {.max_batch = 8, .max_spread = i % 2 * 5}, batch,
        BatchPolicy::kAll);
    Concurrency concurrency;
    Grow(random, 0, kernels, &concurrency);
    const Bytes part(Draw(random, 0, 12));
    const auto equal = SolveWr(profile, {batch, part});
    if (!equal) continue;
    ++compared;
    const auto plan =
        SolveWs(profile, concurrency,
                {batch, part * static_cast<std::int64_t>(kernels)});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE(plan->total_time, equal->total_time) << i;
  }
  EXPECT_GT(compared, Trials(700));
}

TEST(WsTest, AlignsSegmentsThatLieBesideOthers) {
  Random random(38);
  int solved = 0;
  for (int i = 0; i < Trials(1500); ++i) {
    const Profile profile =
        RandomProfile(random, 6, {.max_batch = 6, .max_workspace = 30},
                      BatchSize(6), BatchPolicy::kAll);
    Concurrency concurrency;
    Grow(random, 0, 6, &concurrency);
    const WrRequest request{BatchSize(6), Bytes(Draw(random, 0, 120))};
    // As if each workspace were as large as what it takes.
    Profile rounded = profile;
    for (KernelProfile& kernel : rounded.kernels) {
      for (MeasuredPoint& point : kernel.points) {
        point.workspace = RoundUp(point.workspace, 8_B);
      }
    }
    const WsLimits limits{.search = {}, .alignment = 8_B};
    const auto plan = SolveWs(profile, concurrency, request, limits);
    const auto expected = SolveWs(rounded, concurrency, request);
    // A kernel that is alone may use all bytes.
    if (expected) ASSERT_TRUE(plan) << plan.error().message;
    if (!plan) continue;
    ++solved;
    if (expected) EXPECT_LE(plan->total_time, expected->total_time);
    const auto pairs = ConcurrentPairs(concurrency);
    const Status valid = ValidatePlan(
        *plan, profile, {WorkspaceMode::kShared, request.policy, pairs});
    ASSERT_TRUE(valid) << valid.error().message;
    if (expected && pairs.size() == 15) {  // all at once
      EXPECT_EQ(plan->total_time, expected->total_time);
    }
    for (const KernelPlan& kernel : plan->kernels) {
      EXPECT_EQ(kernel.offset->count() % 8, 0);
    }
  }
  EXPECT_GT(solved, Trials(500));
}

TEST(WsTest, NamesTheSmallestSufficientArena) {
  Random random(34);
  int refused = 0;
  for (int i = 0; i < Trials(1000); ++i) {
    const Profile profile =
        RandomProfile(random, 4, {}, BatchSize(6), BatchPolicy::kAll);
    Concurrency concurrency;
    Grow(random, 0, 4, &concurrency);
    const auto plan = SolveWs(profile, concurrency, {BatchSize(6), 0_B});
    if (plan) continue;
    ++refused;
    ASSERT_EQ(plan.error().code, Code::kFailedPrecondition);
    const std::string& why = plan.error().message;
    const std::string tail = "smallest limit that would do is ";
    ASSERT_THAT(why, HasSubstr(tail));
    const Bytes least =
        ParseBytes(why.substr(why.find(tail) + tail.size())).value();
    EXPECT_TRUE(SolveWs(profile, concurrency, {BatchSize(6), least}));
    EXPECT_FALSE(SolveWs(profile, concurrency, {BatchSize(6), least - 1_B}));
  }
  EXPECT_GT(refused, Trials(300));
}

// Two branches, one of which gains most from the whole arena, then a single
// kernel.
TEST(WsTest, SharesBytesBetweenKernelsThatNeverRunAtOnce) {
  Profile profile;
  profile.kernels.resize(3);
  profile.kernels[0].points = {Point(4, "FAST", 60, 10),
                               Point(4, "SLOW", 0, 50)};
  profile.kernels[1].points = {Point(4, "FAST", 60, 10),
                               Point(4, "SLOW", 0, 20)};
  profile.kernels[2].points = {Point(4, "FAST", 80, 5),
                               Point(4, "SLOW", 0, 30)};
  Concurrency concurrency;
  concurrency.nodes = {{Kind::kLeaf, 0, {}},
                       {Kind::kLeaf, 1, {}},
                       {Kind::kParallel, 0, {0, 1}},
                       {Kind::kLeaf, 2, {}},
                       {Kind::kSerial, 0, {2, 3}}};
  const WorkspacePlan plan =
      SolveWs(profile, concurrency, {BatchSize(4), 100_B}).value();
  EXPECT_EQ(plan.total_time, Nanoseconds(10 + 20 + 5));
  EXPECT_EQ(plan.total_workspace, 80_B);
  EXPECT_EQ(SolveWs(profile, AllConcurrent(3), {BatchSize(4), 100_B})
                .value()
                .total_time,
            Nanoseconds(10 + 20 + 30));
  const WorkspacePlan wide =
      SolveWs(profile, concurrency, {BatchSize(4), 120_B}).value();
  EXPECT_EQ(wide.total_time, Nanoseconds(25));
  EXPECT_NE(wide.kernels[0].offset, wide.kernels[1].offset);
  EXPECT_EQ(wide.kernels[2].offset, 0_B);
}

TEST(WsTest, IsNotOptimalIfAFrontWasThinnedOut) {
  Random random(35);
  int thinned = 0;
  for (int i = 0; i < Trials(300); ++i) {
    const Profile profile =
        RandomProfile(random, 6, {.max_batch = 6, .max_workspace = 200},
                      BatchSize(6), BatchPolicy::kAll);
    // A Parallel of two Serials, one of which holds a Parallel.
    Concurrency concurrency = AllConcurrent(6);
    concurrency.nodes.pop_back();
    concurrency.nodes.push_back({Kind::kParallel, 0, {0, 1, 2, 3}});
    concurrency.nodes.push_back({Kind::kSerial, 0, {6, 4}});
    concurrency.nodes.push_back({Kind::kParallel, 0, {7, 5}});
    const WrRequest request{BatchSize(6), Bytes(Draw(random, 200, 500))};
    const auto exact = SolveWs(profile, concurrency, request);
    const auto rough =
        SolveWs(profile, concurrency, request, {.search = {}, .max_front = 3});
    ASSERT_EQ(exact.has_value(), rough.has_value());
    if (!exact) continue;
    EXPECT_TRUE(exact->optimal);
    EXPECT_GE(rough->total_time, exact->total_time);
    const auto equal =
        SolveWr(profile, {request.batch, request.workspace_limit / 6});
    if (equal) EXPECT_LE(rough->total_time, equal->total_time);
    EXPECT_LE(rough->lower_bound, exact->total_time);
    EXPECT_TRUE(!rough->optimal || rough->total_time == exact->total_time);
    thinned += rough->optimal ? 0 : 1;
    const auto pairs = ConcurrentPairs(concurrency);
    EXPECT_TRUE(ValidatePlan(*rough, profile,
                             {WorkspaceMode::kShared, request.policy, pairs}));
  }
  EXPECT_GT(thinned, Trials(30));
}

TEST(WsTest, StaysValidUnderNoise) {
  Random random(36);
  for (int i = 0; i < Trials(1500); ++i) {
    const Profile profile =
        RandomProfile(random, 4, {.max_batch = 6, .max_spread = 30},
                      BatchSize(6), BatchPolicy::kAll);
    Concurrency concurrency;
    Grow(random, 0, 4, &concurrency);
    const auto plan = SolveWs(profile, concurrency,
                              {BatchSize(6), Bytes(Draw(random, 0, 40))});
    if (!plan) continue;
    const auto pairs = ConcurrentPairs(concurrency);
    const Status valid = ValidatePlan(
        *plan, profile, {WorkspaceMode::kShared, BatchPolicy::kAll, pairs});
    EXPECT_TRUE(valid) << valid.error().message;
  }
}

TEST(WsTest, ReportsPlansThatTakeTooLongAsOutOfRange) {
  Profile profile;
  profile.kernels.resize(2);
  for (KernelProfile& kernel : profile.kernels) {
    // Alone under 10 bytes: four images, each of half the longest time.
    kernel.points = {Point(1, "A", 10, std::int64_t{1} << 61),
                     Point(1, "B", 20, 1)};
  }
  const auto plan = SolveWs(profile, AllConcurrent(2), {BatchSize(4), 30_B});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kOutOfRange);
  EXPECT_TRUE(SolveWs(profile, AllConcurrent(2), {BatchSize(4), 40_B}));
}

TEST(WsTest, AcceptsTheLargestWorkspacesOfKernelsInAChain) {
  const Bytes most(std::int64_t{1} << 62);
  Profile profile;
  profile.kernels.resize(3);
  for (KernelProfile& kernel : profile.kernels) {
    kernel.points = {Point(4, "A", most.count(), 1)};
  }
  const auto plan = SolveWs(profile, Chain(3), {BatchSize(4), most});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->total_workspace, most);
  EXPECT_TRUE(ValidatePlan(
      *plan, profile, {WorkspaceMode::kShared, BatchPolicy::kPowerOfTwo, {}}));
}

TEST(WsTest, RefusesStructuresThatDoNotMatchTheKernels) {
  Profile profile;
  profile.kernels.resize(2);
  for (KernelProfile& kernel : profile.kernels) {
    kernel.points = {Point(4, "A", 60, std::int64_t{1} << 60)};
  }
  EXPECT_EQ(SolveWs(profile, Chain(3), {BatchSize(4), 60_B}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(SolveWs(profile, Chain(2), {BatchSize(4), Bytes(-1)}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(SolveWs({}, {}, {BatchSize(4), 60_B}).error().code,
            Code::kInvalidArgument);
  EXPECT_THAT(SolveWs(profile, Chain(2), {BatchSize(5), 60_B}).error().message,
              HasSubstr("nearest batch below that would do is 4"));
  EXPECT_EQ(SolveWs(profile, Chain(2), {BatchSize(4), 60_B}).error().code,
            Code::kOutOfRange);
  EXPECT_EQ(
      SolveWs(profile, AllConcurrent(2), {BatchSize(4), 120_B}).error().code,
      Code::kOutOfRange);
}

}  // namespace
}  // namespace ucudnn
