#include "solver/memory/split/least_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <vector>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kMaxParts = 4;

Result<TrainingGraph> Train(const Graph& network) {
  UCUDNN_ASSIGN_OR_RETURN(TrainingGraph graph, BuildTrainingGraph(network, {}));
  UCUDNN_RETURN_IF_ERROR(SetDevice(*DeviceModelPreset("P100-NVLINK"), &graph));
  return graph;
}

LeastSplitProblem ProblemOf(const Graph& network, Bytes budget,
                            const std::string& policy = "hmms") {
  LeastSplitProblem problem;
  problem.network = &network;
  problem.train = Train;
  problem.policy = FindMemoryPolicy(policy).value();
  problem.request.budget = budget;
  problem.max_parts = kMaxParts;
  return problem;
}

LeastSplit Find(const LeastSplitProblem& problem) {
  Result<LeastSplit> least = FindLeastSplit(problem);
  EXPECT_TRUE(least) << least.error().message;
  return least.value_or(LeastSplit());
}

// "0.5,2,1", "whole", or "none".
std::string Named(const LeastSplit& least) {
  if (least.whole_fits) return "whole";
  return least.planned ? ToString(least.split->options) : "none";
}

// Every split with at most so many parts whose depth is a number of
// convolutions, with its training graph.
struct Candidate {
  std::size_t end = 0;  // nodes in parts
  SplitOptions options;
  TrainingGraph graph;
};
std::size_t InParts(const Graph& split) {
  return static_cast<std::size_t>(std::ranges::count_if(
      split.nodes,
      [](const Node& node) { return node.name.ends_with(".h0w0"); }));
}

std::vector<Candidate> AllSplits(const Graph& network) {
  std::vector<Candidate> all;
  const auto convolutions = std::ranges::count_if(
      network.nodes,
      [](const Node& node) { return node.convolution.has_value(); });
  for (std::int64_t depth = 1; depth <= convolutions; ++depth) {
    for (int height = 1; height <= kMaxParts; ++height) {
      for (int width = 1; height * width <= kMaxParts; ++width) {
        if (height * width == 1) continue;
        const SplitOptions options = {
            static_cast<double>(depth) / static_cast<double>(convolutions),
            height, width};
        const Result<Graph> split = SplitGraph(network, options);
        if (!split) continue;
        all.push_back({InParts(*split), options, Train(*split).value()});
      }
    }
  }
  return all;
}

// The least of all splits by its definition, every one planned.
std::string LeastOfAll(const Graph& network, const std::vector<Candidate>& all,
                       const MemoryRequest& request,
                       const MemoryPolicy& policy) {
  if (policy.plan(Train(network).value(), request)) return "whole";
  using Key = std::tuple<std::size_t, int, Nanoseconds, int>;
  std::optional<Key> least;
  std::string name = "none";
  for (const Candidate& split : all) {
    const Result<MemoryPlan> plan = policy.plan(split.graph, request);
    if (!plan) continue;
    const SplitOptions& o = split.options;
    const Key key = {split.end, o.height_parts * o.width_parts, plan->time,
                     o.height_parts};
    if (least && *least <= key) continue;
    least = key;
    name = std::to_string(split.end) + " nodes, " +
           std::to_string(o.height_parts) + " x " +
           std::to_string(o.width_parts);
  }
  return name;
}

// The same name of an answer.
std::string NodesOf(const Graph& network, const LeastSplit& least) {
  if (!least.planned) return Named(least);
  const SplitOptions& o = least.split->options;
  return std::to_string(InParts(SplitGraph(network, o).value())) + " nodes, " +
         std::to_string(o.height_parts) + " x " + std::to_string(o.width_parts);
}

// Most of its memory is of the first layers.
Graph LargeImages() {
  test::NetworkBuilder n("images", 64);
  auto x = n.Relu("a", n.Conv("a", n.Input(3, 32), 32, 3));
  x = n.Relu("b", n.Conv("b", x, 32, 3));
  x = n.Pool("p", n.Relu("c", n.Conv("c", x, 32, 3)), 2, 2);
  x = n.Pool("q", n.Relu("d", n.Conv("d", x, 16, 3)), 2, 2);
  n.Gemm("fc", n.Flatten(n.Conv("e", x, 8, 3)), 10);
  return n.Finish();
}

std::vector<Graph> Networks() {
  return {LargeImages(), test::SmallResidual(64), test::SmallInception(256)};
}

TEST(LeastSplitTest, FindsTheLeastOfAllSplits) {
  int whole = 0;
  int split = 0;
  int none = 0;
  for (const Graph& network : Networks()) {
    const std::vector<Candidate> all = AllSplits(network);
    ASSERT_GT(all.size(), 10u) << network.name;
    std::vector<std::string> policies = {"hmms"};
    if (network.name == "images") policies.push_back("baseline");
    for (const std::string& policy : policies) {
      const MemoryPolicy& of = *FindMemoryPolicy(policy).value();
      const LeastSplit least_of_all = Find(ProblemOf(network, 1_MiB, policy));
      const Bytes low = least_of_all.least_budget;
      const Bytes high = least_of_all.whole.value().plan.budget;
      for (int i = -1; i <= 7; ++i) {
        const Bytes budget = low + Bytes((high - low).count() / 6 * i);
        const LeastSplitProblem problem = ProblemOf(network, budget, policy);
        const LeastSplit least = Find(problem);
        const std::string name = NodesOf(network, least);
        EXPECT_EQ(name, LeastOfAll(network, all, problem.request, of))
            << network.name << ", " << policy << ", " << HumanBytes(budget);
        (name == "whole" ? whole : name == "none" ? none : split)++;
        EXPECT_FALSE(least.cut_off);
        const SplitSearch& s = least.search;
        EXPECT_EQ(s.done, s.planned + s.beyond + s.impossible + s.unmeasured);
        if (name == "none") {
          EXPECT_EQ(s.done, s.splits);
        }
      }
    }
  }
  EXPECT_GT(whole, 5);
  EXPECT_GT(split, 15);
  EXPECT_GE(none, 2);
}

TEST(LeastSplitTest, NamesDepthsThatMeanTheSameLayers) {
  for (const Graph& network :
       {test::SmallResidual(2), test::PaperVgg19(1), test::PaperResNet50(1)}) {
    const std::vector<SplitDepth> depths = SplitDepths(network).value();
    ASSERT_FALSE(depths.empty());
    for (const SplitDepth& depth : depths) {
      const Graph split =
          SplitGraph(network,
                     ParseSplitOptions(ToString({depth.depth, 2, 1})).value())
              .value();
      const auto in_parts =
          std::ranges::count_if(split.nodes, [](const Node& node) {
            return node.convolution && node.name.ends_with(".h0w0");
          });
      EXPECT_EQ(in_parts, depth.convolutions) << network.name;
      EXPECT_TRUE(std::ranges::any_of(split.nodes, [&](const Node& node) {
        return node.name == depth.last_node + ".join";
      })) << depth.last_node;
    }
  }
  // Of 6 convolutions: 1 / 6, 1 / 2 and 1.
  std::vector<double> shares;
  const auto depths = SplitDepths(test::SmallResidual(2)).value();
  for (const SplitDepth& depth : depths) {
    shares.push_back(depth.depth);
  }
  EXPECT_THAT(shares, ElementsAre(0.1, 0.5, 1));
}

TEST(LeastSplitTest, ComparesWithTheWholeNetworkInItsLeastBudget) {
  const Graph network = LargeImages();
  LeastSplitProblem problem = ProblemOf(network, 1_MiB);
  problem.request.budget = Find(problem).least_budget;
  const LeastSplit least = Find(problem);
  ASSERT_TRUE(least.planned) << Named(least);
  EXPECT_LE(least.planned->plan.peak, problem.request.budget);
  EXPECT_EQ(least.planned->graph.network,
            "images (split " + ToString(least.split->options) + ")");
  ASSERT_TRUE(least.whole);
  EXPECT_FALSE(least.whole_fits);
  const MemoryPlan& whole = least.whole->plan;
  EXPECT_GT(whole.budget, problem.request.budget);
  EXPECT_EQ(whole.budget, *SmallestBudget(least.whole->graph, problem.request,
                                          *problem.policy));
}

TEST(LeastSplitTest, FindsTheLeastBudgetWhereNoSplitFits) {
  for (const Graph& network : {LargeImages(), test::SmallInception(256)}) {
    const LeastSplitProblem problem = ProblemOf(network, 1_MiB);
    const LeastSplit least = Find(problem);
    ASSERT_EQ(Named(least), "none");
    ASSERT_TRUE(least.split) << network.name;
    EXPECT_FALSE(least.least_budget_cut_off);
    Bytes of_all = Bytes::Max();
    for (const Candidate& split : AllSplits(network)) {
      of_all = std::min(
          of_all, SmallestBudget(split.graph, problem.request, *problem.policy)
                      .value());
    }
    // To within what SmallestBudget finds twice.
    EXPECT_LE(least.least_budget, of_all + 2_MiB) << network.name;
    EXPECT_GE(least.least_budget, of_all) << network.name;
    const LeastSplit again = Find(ProblemOf(network, least.least_budget));
    EXPECT_TRUE(again.planned || again.whole_fits) << network.name;
  }
}

TEST(LeastSplitTest, CountsWhatCannotBeCutAndWhatIsNotMeasured) {
  test::NetworkBuilder n("net", 64);
  n.Conv("b", n.Conv("a", n.Input(3, 4), 4, 3), 4, 3);
  const Graph network = n.Finish();
  LeastSplitProblem problem = ProblemOf(network, Bytes(4096));
  problem.train = [](const Graph& graph) -> Result<TrainingGraph> {
    if (graph.nodes.front().name == "a.h0w0" &&
        graph.nodes[1].name == "a.h0w1") {
      return Fail(Code::kNotFound, "no points of {}", graph.name);
    }
    return Train(graph);
  };
  const LeastSplit least = Find(problem);
  EXPECT_EQ(Named(least), "none");
  // Two depths with 1 x 2, 2 x 1, 1 x 3, ... 4 x 1 parts, and the whole.
  EXPECT_EQ(least.search.splits, 1 + 2 * 7);
  EXPECT_EQ(least.search.done, least.search.splits);
  EXPECT_GT(least.search.impossible, 0);
  EXPECT_THAT(least.search.first_impossible, HasSubstr("3 parts would leave"));
  EXPECT_GT(least.search.unmeasured, 0);
  EXPECT_THAT(least.search.first_unmeasured,
              HasSubstr("no points of net (split 0.5,1,2)"));
}

TEST(LeastSplitTest, StopsWithWhatIsKnown) {
  const Graph network = test::SmallResidual(256);
  LeastSplitProblem problem = ProblemOf(network, 1_MiB);
  std::stop_source stop;
  problem.request.stop = stop.get_token();
  std::vector<std::string> shown;
  problem.progress = [&](const SplitSearch& search, const std::string& what) {
    shown.push_back(what);
    EXPECT_EQ(search.splits, 1 + 3 * 7);
    if (search.done == 3) stop.request_stop();
  };
  const LeastSplit least = Find(problem);
  EXPECT_TRUE(least.cut_off);
  EXPECT_FALSE(least.split);
  // A split that was begun is not counted if its plan was cut off.
  EXPECT_EQ(least.search.done, 3);
  EXPECT_THAT(
      shown, ElementsAre("the whole network", "0.1,1,2", "0.1,2,1", "0.1,1,3"));
}

TEST(LeastSplitTest, RefusesNetworksThatCannotBeSplit) {
  test::NetworkBuilder n("net", 2);
  n.Gemm("fc", n.Flatten(n.Input(3, 4)), 4);
  const Graph network = n.Finish();
  const Result<LeastSplit> least =
      FindLeastSplit(ProblemOf(network, Bytes(1024)));
  ASSERT_FALSE(least);
  EXPECT_EQ(least.error().code, Code::kInvalidArgument);
  EXPECT_THAT(least.error().message, HasSubstr("0 convolutions"));
}

TEST(LeastSplitTest, SplitsAtRandomIfAsked) {
  const Graph network = LargeImages();
  LeastSplitProblem problem = ProblemOf(network, 1_MiB);
  problem.stochastic = true;
  problem.request.budget = Find(problem).least_budget;
  const LeastSplit least = Find(problem);
  ASSERT_TRUE(least.planned);
  EXPECT_THAT(Named(least), HasSubstr(",stochastic"));
}

}  // namespace
}  // namespace ucudnn
