#include "client/solve/least_split.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/service/time_limit.h"
#include "base/text.h"
#include "base/training/json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const LeastSplit::Split& split) {
  return {{"split", ToString(split.options)},
          {"depth", split.options.depth},
          {"convolutions", split.depth.convolutions},
          {"all_convolutions", split.depth.all_convolutions},
          {"last_node", split.depth.last_node},
          {"height_parts", split.options.height_parts},
          {"width_parts", split.options.width_parts},
          {"stochastic", split.options.stochastic}};
}

Json ToJson(const SplitSearch& search, bool cut_off) {
  return {{"splits", search.splits},
          {"done", search.done},
          {"planned", search.planned},
          {"beyond", search.beyond},
          {"impossible", search.impossible},
          {"unmeasured", search.unmeasured},
          {"cut_off", cut_off}};
}

// Of the whole network: what the plan adds up to, without its events.
Json WholeJson(const LeastSplit& found) {
  if (!found.whole) return nullptr;
  Json json = {{"fits", found.whole_fits}};
  json.update(ToJson(found.whole->plan, found.whole->graph));
  json.erase("rounds");
  json.erase("resident");
  return json;
}

}  // namespace

const LeastSplit::Planned* LeastSplitAnswer::Plan() const {
  const auto& plan = found.whole_fits ? found.whole : found.planned;
  return plan ? &*plan : nullptr;
}

std::string Searched(const SplitSearch& search) {
  std::string text = fmt::format(
      "{} of {} splits searched, the whole network among them: {} planned",
      search.done, search.splits, search.planned);
  const auto add = [&](std::int64_t count, std::string_view what,
                       const std::string& first) {
    if (count == 0) return;
    text += fmt::format(", {} {}", count, what);
    if (!first.empty()) text += fmt::format(" (the first: {})", first);
  };
  add(search.beyond, "too large by one task alone", "");
  add(search.impossible, "cannot be cut so", search.first_impossible);
  add(search.unmeasured, "not measured", search.first_unmeasured);
  return text;
}

Result<LeastSplitAnswer> SolveLeastSplit(const LeastSplitRequest& request) {
  const MemoryProblem& memory = request.memory;
  LeastSplitProblem problem;
  UCUDNN_ASSIGN_OR_RETURN(problem.policy, PolicyOf(memory));
  UCUDNN_ASSIGN_OR_RETURN(const Graph network, ReadNetwork(memory));
  UCUDNN_ASSIGN_OR_RETURN(const MemoryMeasurements measured,
                          MeasurementsOf(memory, network));
  problem.network = &network;
  problem.train = [&](const Graph& graph) -> Result<TrainingGraph> {
    UCUDNN_ASSIGN_OR_RETURN(TrainingGraph training, TrainingOf(memory, graph));
    Status status = SetCosts(measured, &training);
    if (status) return training;
    // Of the whole network, the profile is of another one.
    if (&graph != &network) status.error().code = Code::kNotFound;
    return tl::unexpected<Error>(std::move(status).error());
  };
  problem.request = memory.request;
  if (problem.request.budget == Bytes(0)) {
    problem.request.budget = memory.device.memory;
  }
  const TimeLimit limit(memory.time_limit, memory.request.stop);
  problem.request.stop = limit.token();
  problem.max_parts = request.max_parts;
  problem.stochastic = request.stochastic;
  problem.progress = request.progress;
  LeastSplitAnswer answer;
  answer.budget = problem.request.budget;
  UCUDNN_ASSIGN_OR_RETURN(answer.found, FindLeastSplit(problem));
  if (std::string note = AccuracyNote(measured.convolutions); !note.empty()) {
    answer.notes.push_back(std::move(note));
  }
  return answer;
}

Status HasPlan(const LeastSplitAnswer& answer) {
  if (answer.Plan() != nullptr) return {};
  const LeastSplit& found = answer.found;
  Error error{Code::kFailedPrecondition, ""};
  error.message =
      found.cut_off
          ? "the search was stopped before it found a split that fits into "
          : "no split fits into ";
  error.message += HumanBytes(answer.budget) + "; " + Searched(found.search);
  if (found.split) {
    error.least = found.least_budget.count();
    error.message += fmt::format(
        "; the least budget that a split reaches is {}{} ({} bytes), by {}: {} "
        "of {} convolutions, up to {}",
        found.least_budget_cut_off ? "at most " : "",
        HumanBytes(found.least_budget), found.least_budget.count(),
        ToString(found.split->options), found.split->depth.convolutions,
        found.split->depth.all_convolutions,
        Excerpt(found.split->depth.last_node, 200));
  }
  if (found.whole) {
    error.message += fmt::format("; the whole network needs {}",
                                 HumanBytes(found.whole->plan.budget));
  }
  return tl::unexpected<Error>(std::move(error));
}

Json ToJson(const LeastSplitAnswer& answer) {
  const LeastSplit::Planned& planned = *answer.Plan();
  Json json = ToJsonWithGraph(planned.plan, planned.graph);
  json["split"] =
      answer.found.whole_fits ? Json(nullptr) : ToJson(*answer.found.split);
  json["whole"] = WholeJson(answer.found);
  json["searched"] = ToJson(answer.found.search, answer.found.cut_off);
  if (!answer.notes.empty()) json["notes"] = answer.notes;
  return json;
}

}  // namespace ucudnn
