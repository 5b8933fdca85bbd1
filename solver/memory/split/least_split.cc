#include "solver/memory/split/least_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "solver/memory/bounds.h"

namespace ucudnn {
namespace {

using Split = LeastSplit::Split;
using Planned = LeastSplit::Planned;

// The splits of a depth that have one number of parts, by rising height.
std::vector<Split> SplitsOf(const SplitDepth& depth, int parts,
                            bool stochastic) {
  std::vector<Split> splits;
  for (int height = 1; height <= parts; ++height) {
    if (parts % height != 0) continue;
    splits.push_back(
        {{depth.depth, height, parts / height, stochastic}, depth});
  }
  return splits;
}

class Search {
 public:
  explicit Search(const LeastSplitProblem& problem) : problem_(problem) {}

  Result<LeastSplit> Run() {
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<SplitDepth> depths,
                            SplitDepths(*problem_.network));
    answer_.search.splits = 1;
    for (int parts = 2; parts <= problem_.max_parts; ++parts) {
      answer_.search.splits +=
          std::ssize(depths) *
          std::ssize(SplitsOf(depths.front(), parts, false));
    }
    UCUDNN_RETURN_IF_ERROR(PlanWhole());
    if (answer_.whole_fits) return std::move(answer_);
    UCUDNN_RETURN_IF_ERROR(SearchDepths(depths));
    answer_.cut_off = Stopped();
    if (!answer_.planned) UCUDNN_RETURN_IF_ERROR(FindLeastBudget());
    UCUDNN_RETURN_IF_ERROR(PlanWholeInItsLeast());
    return std::move(answer_);
  }

 private:
  // A split without a plan.
  struct Refused {
    Split split;
    Bytes bound;
  };

  bool Stopped() const { return problem_.request.stop.stop_requested(); }

  void Show(const std::string& what) const {
    problem_.progress(answer_.search, what);
  }

  // Absent where it cannot be cut so, or is not measured, which is counted.
  Result<std::optional<TrainingGraph>> Train(const SplitOptions& options) {
    const auto note = [](const std::string& why, std::int64_t* count,
                         std::string* first) {
      if (++*count == 1) *first = why;
      return std::nullopt;
    };
    SplitSearch& search = answer_.search;
    const Result<Graph> network = SplitGraph(*problem_.network, options);
    if (!network) {
      return note(network.error().message, &search.impossible,
                  &search.first_impossible);
    }
    Result<TrainingGraph> graph = problem_.train(*network);
    if (graph) return *std::move(graph);
    if (graph.error().code != Code::kNotFound) {
      return tl::unexpected<Error>(std::move(graph).error());
    }
    return note(graph.error().message, &search.unmeasured,
                &search.first_unmeasured);
  }

  Bytes BoundOf(const TrainingGraph& graph) const {
    return LowerBoundBytes(graph, problem_.request.offload_weights);
  }

  // Whether the policy has a plan within the budget.
  Result<bool> Fits(const TrainingGraph& graph, Bytes budget) const {
    MemoryRequest request = problem_.request;
    request.budget = budget;
    request.any_plan = true;
    const Result<MemoryPlan> plan = problem_.policy->plan(graph, request);
    if (!plan && plan.error().code != Code::kFailedPrecondition) {
      return tl::unexpected<Error>(plan.error());
    }
    return plan.has_value();
  }

  // The policy's plan within the budget; absent if there is none.
  Result<std::optional<MemoryPlan>> Plan(const TrainingGraph& graph,
                                         Bytes budget) const {
    UCUDNN_ASSIGN_OR_RETURN(const bool fits, Fits(graph, budget));
    if (!fits) return std::nullopt;
    MemoryRequest request = problem_.request;
    request.budget = budget;
    Result<MemoryPlan> plan = PlanMemory(graph, request, *problem_.policy);
    if (plan) return *std::move(plan);
    // What was found to fit may not be found again once a stop was requested.
    if (plan.error().code == Code::kFailedPrecondition) return std::nullopt;
    return tl::unexpected<Error>(std::move(plan).error());
  }

  Status PlanWhole() {
    Show("the whole network");
    UCUDNN_ASSIGN_OR_RETURN(whole_, problem_.train(*problem_.network));
    UCUDNN_ASSIGN_OR_RETURN(std::optional<MemoryPlan> plan,
                            Plan(whole_, problem_.request.budget));
    if (!plan && Stopped()) return {};
    ++answer_.search.planned;
    ++answer_.search.done;
    if (!plan) return {};
    answer_.whole_fits = true;
    answer_.whole = {std::move(whole_), *std::move(plan)};
    return {};
  }

  Status PlanWholeInItsLeast() {
    if (Stopped()) return {};
    Show("the whole network's least budget");
    const std::optional<Bytes> least =
        SmallestBudget(whole_, problem_.request, *problem_.policy);
    if (!least) return {};
    UCUDNN_ASSIGN_OR_RETURN(std::optional<MemoryPlan> plan,
                            Plan(whole_, *least));
    if (plan) answer_.whole = {std::move(whole_), *std::move(plan)};
    return {};
  }

  Status SearchDepths(const std::vector<SplitDepth>& depths) {
    for (const SplitDepth& depth : depths) {
      for (int parts = 2; parts <= problem_.max_parts; ++parts) {
        for (const Split& split : SplitsOf(depth, parts, problem_.stochastic)) {
          if (Stopped()) return {};
          UCUDNN_RETURN_IF_ERROR(Try(split));
        }
        if (answer_.planned) return {};
      }
    }
    return {};
  }

  // Plans the split, and keeps it if it is faster than what was found.
  Status Try(const Split& split) {
    Show(ToString(split.options));
    UCUDNN_ASSIGN_OR_RETURN(std::optional<TrainingGraph> graph,
                            Train(split.options));
    if (!graph) {
      ++answer_.search.done;
      return {};
    }
    const Bytes bound = BoundOf(*graph);
    const bool beyond = bound > problem_.request.budget;
    std::optional<MemoryPlan> plan;
    if (!beyond) {
      UCUDNN_ASSIGN_OR_RETURN(plan, Plan(*graph, problem_.request.budget));
      if (!plan && Stopped()) return {};
    }
    ++answer_.search.done;
    ++(beyond ? answer_.search.beyond : answer_.search.planned);
    if (!plan) {
      refused_.push_back({split, bound});
    } else if (!answer_.planned || plan->time < answer_.planned->plan.time) {
      answer_.split = split;
      answer_.planned = {*std::move(graph), *std::move(plan)};
    }
    return {};
  }

  // How far apart budgets are, as SmallestBudget has it.
  static Bytes StepBelow(Bytes budget) {
    return std::max(Bytes(1_MiB), budget / 1000);
  }

  // Of the splits that have no plan within the request's budget. Those of many
  // parts and great depth come first: most others then cost one plan, which
  // shows that they need no less.
  Status FindLeastBudget() {
    for (std::size_t i = refused_.size(); i-- > 0 && !Stopped();) {
      const auto& [split, bound] = refused_[i];
      Show(fmt::format("{} left to find the least budget of", i + 1));
      std::optional<Bytes> below;  // what would be less than the least so far
      if (answer_.split) {
        below = answer_.least_budget - StepBelow(answer_.least_budget);
        if (bound > *below) continue;
      }
      UCUDNN_ASSIGN_OR_RETURN(const std::optional<TrainingGraph> graph,
                              Train(split.options));
      if (below) {
        UCUDNN_ASSIGN_OR_RETURN(const bool less, Fits(*graph, *below));
        if (!less) continue;
      }
      const std::optional<Bytes> budget =
          SmallestBudget(*graph, problem_.request, *problem_.policy);
      if (!budget || Stopped()) continue;
      if (answer_.split && *budget >= answer_.least_budget) continue;
      answer_.split = split;
      answer_.least_budget = *budget;
    }
    answer_.least_budget_cut_off = Stopped();
    return {};
  }

  const LeastSplitProblem& problem_;
  LeastSplit answer_;
  TrainingGraph whole_;
  std::vector<Refused> refused_;
};

}  // namespace

Result<LeastSplit> FindLeastSplit(const LeastSplitProblem& problem) {
  return Search(problem).Run();
}

}  // namespace ucudnn
