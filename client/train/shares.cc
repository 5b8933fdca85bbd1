#include "client/train/shares.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "base/files/file.h"
#include "base/plan/plan.h"
#include "base/service/time_limit.h"
#include "base/text.h"
#include "base/training/json.h"
#include "client/session/config.h"
#include "client/train/estimates.h"
#include "client/train/measurements.h"
#include "client/train/share_search.h"
#include "client/training/link_under_load.h"
#include "solver/joint_memory.h"

namespace ucudnn::train {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Longer than any rank measures or plans.
constexpr std::chrono::hours kPatience{4};
Ranks::Deadline InTime() { return Clock::now() + kPatience; }

// Of measuring and solving.
constexpr int kMostRounds = 5;

// Tells training graphs apart whose measurements are not each other's: the
// order of tasks depends on the ranks, and what updates read on the momentum.
std::string HashOf(const TrainingGraph& graph) {
  std::string text;
  for (const MemoryBlock& block : graph.blocks) {
    text += fmt::format("{} {} {}\n", block.name, block.bytes.count(),
                        block.bytes_per_image.count());
  }
  for (const Task& task : graph.tasks) {
    text += fmt::format("{} {} {}\n", task.name, fmt::join(task.reads, ","),
                        fmt::join(task.writes, ","));
  }
  return ShortHash(text);
}

// What is to be said of the accuracy of the algorithms that tasks choose from,
// after how they were planned; empty if all errors are known.
std::string AccuracyOf(const TrainingGraph& graph) {
  Profile kernels;
  for (const Task& task : graph.tasks) {
    const std::vector<MeasuredPoint>& points = task.work.measured;
    if (points.empty() || points[0].algorithm.name.empty()) continue;
    kernels.kernels.emplace_back().points = points;
  }
  const std::string note = AccuracyNote(kernels);
  return note.empty() ? note : "; " + note;
}

}  // namespace

Result<Turns> Turns::Find(Ranks& ranks, const Device& device,
                          Ranks::Deadline deadline) {
  UCUDNN_ASSIGN_OR_RETURN(
      const std::vector<std::string> ids,
      ranks.AllGather(WholeDevice(device.info().id), deadline));
  Turns turns;
  std::map<std::string, int> ranks_of;
  for (std::size_t r = 0; r < ids.size(); ++r) {
    const int turn = ranks_of[ids[r]]++;
    turns.all = std::max(turns.all, turn + 1);
    if (static_cast<int>(r) == ranks.rank()) turns.mine = turn;
  }
  return turns;
}

Status SharePlanner::Together(const Status& mine) {
  UCUDNN_ASSIGN_OR_RETURN(Status all, ranks_.AllOf(mine, InTime()));
  return all;
}

Result<Part> SharePlanner::Plan(const std::stop_token& stop) {
  const auto plan = [&] {
    return request_.shares.empty() ? PlanTogether(stop) : PlanAlone(stop);
  };
  UCUDNN_RETURN_IF_ERROR(ReadKnown());
  UCUDNN_ASSIGN_OR_RETURN(Part part, plan());
  UCUDNN_ASSIGN_OR_RETURN(const bool changed, MeasureLinks(part, stop));
  if (changed) {
    UCUDNN_ASSIGN_OR_RETURN(part, plan());
  }
  UCUDNN_RETURN_IF_ERROR(WriteKnown());
  return part;
}

Status SharePlanner::ReadKnown() {
  if (request_.measurements.empty()) return {};
  std::string text;
  Status status;
  if (ranks_.rank() == 0) {
    auto file = ReadFile(request_.measurements, 1_GiB);
    if (file) {
      text = *std::move(file);
    } else if (file.error().code != Code::kNotFound) {
      status = tl::unexpected<Error>(std::move(file).error());
    }
  }
  UCUDNN_RETURN_IF_ERROR(Together(status));
  UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&text, InTime()));
  if (text.empty()) return {};
  const Json json = Json::parse(text, nullptr, false);
  const bool fits =
      json.is_object() && std::ranges::all_of(json, [](const Json& value) {
        return value.is_object();
      });
  if (!fits) {
    return Fail(Code::kInvalidArgument,
                "{}: no measurements; what ucudnn-train wrote is accepted",
                Excerpt(request_.measurements));
  }
  for (const auto& [key, value] : json.items()) read_[key] = value.dump();
  known_ = read_;
  return {};
}

Status SharePlanner::WriteKnown() {
  if (request_.measurements.empty()) return {};
  Status written;
  const auto before = read_;
  for (const auto& [key, text] : known_) read_[key] = text;
  if (ranks_.rank() == 0 && read_ != before) {
    Json json = Json::object();
    for (const auto& [key, text] : read_) json[key] = Json::parse(text);
    written = ReplaceFile(request_.measurements, json.dump() + "\n");
  }
  return Together(written);
}

Status SharePlanner::Measure(const std::vector<BatchSize>& batches,
                             const std::stop_token& stop) {
  const TrainingInput& input = request_.input;
  std::string key = fmt::format(
      "{} {}, {} {}", ShortHash(input.contents), Name(input.graph.precision),
      ToString(device_.info().kind), device_.info().driver);
  if (input.model) key += ' ' + ShortHash(ToJson(*input.model).dump());
  key += " tasks " + HashOf(prepared_.training);
  if (input.exchanged_statistics) key += " exchanged";
  UCUDNN_ASSIGN_OR_RETURN(keys_, ranks_.AllGather(key, InTime()));
  Status set;
  if (const auto known = known_.find(key); known != known_.end()) {
    set = SetMeasurements(Json::parse(known->second), &prepared_.training);
    if (!set) set = Within(Excerpt(request_.measurements), set.error());
  }
  UCUDNN_RETURN_IF_ERROR(Together(set));
  // One rank of a kind measures what all of them need.
  Json mine = Json::array();
  for (const BatchSize batch : batches) mine.push_back(batch.count());
  UCUDNN_ASSIGN_OR_RETURN(std::vector<std::string> texts,
                          ranks_.AllGather(mine.dump(), InTime()));
  std::set<BatchSize> wanted;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (keys_[r] != key) continue;
    for (const Json& count : Json::parse(texts[r])) {
      wanted.insert(BatchSize(count.get<std::int64_t>()));
    }
  }
  const std::set<BatchSize> measured = MeasuredSizes(prepared_.training);
  std::vector<BatchSize> missing;
  std::ranges::set_difference(wanted, measured, std::back_inserter(missing));
  const auto first = std::ranges::find(keys_, key) - keys_.begin();
  const bool measures = first == ranks_.rank() && !missing.empty();
  for (int turn = 0; turn < turns_.all; ++turn) {
    UCUDNN_RETURN_IF_ERROR(Together(measures && turn == turns_.mine
                                        ? MeasureMine(missing, stop)
                                        : Status()));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      texts,
      ranks_.AllGather(
          measures ? MeasurementsOf(prepared_.training).dump() : std::string(),
          InTime()));
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (!texts[r].empty()) known_[keys_[r]] = std::move(texts[r]);
  }
  return Together(
      SetMeasurements(Json::parse(known_.at(key)), &prepared_.training));
}

Status SharePlanner::MeasureMine(std::vector<BatchSize> batches,
                                 const std::stop_token& stop) {
  TrainingGraph& training = prepared_.training;
  const std::vector<Task> before = training.tasks;
  TrainingInput input = request_.input;
  input.batches = std::move(batches);
  const bool is_first = MeasuredSizes(training).empty();
  if (!is_first) input.model = training.device;
  UCUDNN_RETURN_IF_ERROR(
      MeasureTraining(device_, operators_, input, stop, &prepared_));
  if (is_first) return {};
  for (std::size_t t = 0; t < before.size(); ++t) {
    std::vector<MeasuredPoint>& points = training.tasks[t].work.measured;
    const std::vector<MeasuredPoint>& known = before[t].work.measured;
    // Updates take the same time at any batch.
    if (training.tasks[t].kind == TaskKind::kUpdate) points.clear();
    points.insert(points.begin(), known.begin(), known.end());
  }
  return {};
}

Result<Part> SharePlanner::PlanAlone(const std::stop_token& stop) {
  const std::vector<BatchSize>& shares = request_.shares;
  Part part;
  part.first = std::accumulate(shares.begin(), shares.begin() + ranks_.rank(),
                               BatchSize(0));
  part.batch = shares[static_cast<std::size_t>(ranks_.rank())];
  prepared_.training.batch = part.batch;
  const BatchSize step = ShareStep(request_.input.batch, ranks_.size());
  std::vector<BatchSize> batches = {part.batch};
  if (request_.plan.policy != "undivided" || request_.for_all_policies) {
    batches = ranks_.size() == 1 ? MeasuredBatches(part.batch)
                                 : WithParts(part.batch, step);
  }
  UCUDNN_RETURN_IF_ERROR(Measure(batches, stop));
  TrainingRequest request = request_.plan;
  request.budget = request_.budgets[static_cast<std::size_t>(ranks_.rank())];
  UCUDNN_ASSIGN_OR_RETURN(part.plan,
                          Together(PlanTraining(prepared_, request, stop)));
  reason_ = ranks_.size() == 1 ? "planned from measurements of this device"
                               : "shares as given, each rank planned by itself";
  reason_ += AccuracyOf(prepared_.training);
  return part;
}

Result<std::string> SharePlanner::MeasureMyLink(const Part& part,
                                                const std::stop_token& stop) {
  // All ranks begin at once, those that cannot, too.
  bool met = false;
  const auto meet = [&] {
    met = true;
    return ranks_.Barrier(InTime());
  };
  Result<bool> changed = false;
  DeviceModel link = prepared_.training.device;
  if (part.copies()) {
    ExecutionOptions execution;
    execution.allow_sub_batch_statistics =
        request_.plan.allow_sub_batch_statistics;
    DeviceBuffer host;
    changed = MeasureLinkUnderLoad(device_, operators_, prepared_, *part.plan,
                                   execution, meet, stop, &host, &link);
  }
  if (!met) UCUDNN_RETURN_IF_ERROR(meet());
  UCUDNN_RETURN_IF_ERROR(changed);
  if (!part.copies()) return std::string();
  return Json({{"changed", *changed}, {"link", ToJson(link)}}).dump();
}

Result<bool> SharePlanner::MeasureLinks(const Part& part,
                                        const std::stop_token& stop) {
  const auto mine = static_cast<std::size_t>(ranks_.rank());
  UCUDNN_ASSIGN_OR_RETURN(
      const std::int64_t any,
      ranks_.Max(part.copies() && !read_.contains(keys_[mine]) ? 1 : 0,
                 InTime()));
  // Ranks in turns do not copy at once.
  if (any == 0 || request_.input.model || turns_.all > 1) return false;
  UCUDNN_ASSIGN_OR_RETURN(const std::string rates,
                          Together(MeasureMyLink(part, stop)));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                          ranks_.AllGather(rates, InTime()));
  // Of several ranks of a kind, the slowest copies count.
  std::map<std::string, Json> slowest;
  bool changed = false;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty() || read_.contains(keys_[r])) continue;
    const Json measured = Json::parse(all[r]);
    changed = changed || measured["changed"] == true;
    const Json& link = measured["link"];
    Json& kept = slowest.try_emplace(keys_[r], link).first->second;
    for (const char* const rate : {"d2h_gb_per_s", "h2d_gb_per_s"}) {
      if (link[rate] < kept[rate]) kept[rate] = link[rate];
    }
  }
  for (const auto& [key, link] : slowest) {
    Json measured = Json::parse(known_.at(key));
    measured["device"] = link;
    known_[key] = measured.dump();
  }
  UCUDNN_RETURN_IF_ERROR(Together(SetMeasurements(
      Json::parse(known_.at(keys_[mine])), &prepared_.training)));
  return changed;
}

Result<Json> SharePlanner::Answer(const std::stop_token& stop) {
  UCUDNN_ASSIGN_OR_RETURN(
      std::string answer,
      Together(ranks_.rank() == 0 ? Solve(stop) : std::string()));
  UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&answer, InTime()));
  return Json::parse(answer);
}

Result<Part> SharePlanner::PlanTogether(const std::stop_token& stop) {
  const BatchSize batch = request_.input.batch;
  prepared_.training.batch = batch;
  std::vector<BatchSize> batches =
      FirstBatches(batch, ShareStep(batch, ranks_.size()));
  for (;;) {
    UCUDNN_RETURN_IF_ERROR(Measure(batches, stop));
    UCUDNN_ASSIGN_OR_RETURN(const Json json, Answer(stop));
    if (!json.contains("measure")) {
      if (json["cut_off"] == false) known_[SearchKey()] = "{}";
      return Together(PartOf(json));
    }
    batches.clear();
    for (const Json& size :
         json["measure"][static_cast<std::size_t>(ranks_.rank())]) {
      batches.emplace_back(size.get<std::int64_t>());
    }
  }
}

std::string SharePlanner::SearchKey() const {
  std::vector<std::int64_t> budgets;
  for (const Bytes budget : request_.budgets) budgets.push_back(budget.count());
  return "searched " +
         ShortHash(fmt::format("{}\n{}\n{}\n{} {} {}", fmt::join(keys_, "\n"),
                               fmt::join(budgets, ","),
                               request_.input.batch.count(),
                               request_.plan.policy, request_.plan.recompute,
                               request_.plan.offload_weights));
}

Result<JointMemoryProblem> SharePlanner::Problem() const {
  JointMemoryProblem problem;
  problem.batch = prepared_.training.batch;
  problem.step = ShareStep(problem.batch, ranks_.size());
  UCUDNN_ASSIGN_OR_RETURN(problem.policy,
                          FindTrainingPolicy(request_.plan.policy));
  problem.request = MemoryRequestOf(request_.plan);
  problem.undivided = MustBeWhole(prepared_, request_.plan);
  std::map<std::pair<std::string, Bytes>, std::size_t> kinds;
  for (std::size_t r = 0; r < keys_.size(); ++r) {
    const auto [kind, is_new] =
        kinds.try_emplace({keys_[r], request_.budgets[r]}, kinds.size());
    problem.gpus.push_back(kind->second);
    if (!is_new) continue;
    JointMemoryKind& made = problem.kinds.emplace_back();
    made.graph = prepared_.training;
    made.budget = request_.budgets[r];
    UCUDNN_RETURN_IF_ERROR(
        SetMeasurements(Json::parse(known_.at(keys_[r])), &made.graph));
    for (const BatchSize size : MeasuredSizes(made.graph)) {
      if (size <= problem.batch) made.shares.push_back(size);
    }
  }
  return problem;
}

Result<std::string> SharePlanner::Solve(const std::stop_token& stop) {
  const TimeLimit limit(request_.plan.time_limit, stop);
  UCUDNN_ASSIGN_OR_RETURN(JointMemoryProblem problem, Problem());
  problem.request.stop = limit.token();
  const auto asks = [](const Wanted& wanted) {
    return std::ranges::any_of(wanted,
                               [](const auto& of) { return !of.empty(); });
  };
  // Ranks with the same device share measurements, whatever their budgets.
  const auto ask = [&](const Wanted& wanted) {
    std::map<std::string, std::set<BatchSize>> sizes;
    for (std::size_t r = 0; r < keys_.size(); ++r) {
      const std::set<BatchSize>& of_kind = wanted[problem.gpus[r]];
      sizes[keys_[r]].insert(of_kind.begin(), of_kind.end());
    }
    Json measure = Json::array();
    for (const std::string& key : keys_) {
      Json& counts = measure.emplace_back(Json::array());
      for (const BatchSize size : sizes[key]) counts.push_back(size.count());
    }
    return Json({{"measure", std::move(measure)}}).dump();
  };
  // An earlier start has searched.
  if (read_.contains(SearchKey())) rounds_ = kMostRounds;
  if (++rounds_ < kMostRounds) {
    UCUDNN_ASSIGN_OR_RETURN(const Wanted wanted, MissingOf(problem));
    if (asks(wanted)) return ask(wanted);
  }
  UCUDNN_ASSIGN_OR_RETURN(const JointMemoryPlan solved,
                          SolveJointMemory(problem));
  if (rounds_ <= kMostRounds) {
    rounds_ = kMostRounds;
    const Wanted finer = FinerOf(problem, solved);
    if (asks(finer)) return ask(finer);
  }
  std::string note;  // the first kind's that has one
  for (const JointMemoryKind& kind : problem.kinds) {
    if (note.empty()) note = AccuracyOf(kind.graph);
  }
  Json ranks = Json::array();
  for (std::size_t r = 0; r < keys_.size(); ++r) {
    const BatchSize batch = solved.assignment.shares[r].batch;
    Json rank = {{"batch", batch.count()},
                 {"why", WhyShare(problem, solved, r)}};
    const std::size_t kind = problem.gpus[r];
    if (batch > BatchSize(0)) {
      rank["plan"] = ToJson(solved.plans.at({kind, batch}),
                            AtBatch(problem.kinds[kind], batch));
    }
    ranks.push_back(std::move(rank));
  }
  const std::set<std::string> measured(keys_.begin(), keys_.end());
  return Json({{"ranks", std::move(ranks)},
               {"cut_off", solved.cut_off},
               {"reason",
                fmt::format(
                    "shares and memory planned from "
                    "measurements of {} here{}{}",
                    measured.size() == 1
                        ? "one kind of device"
                        : fmt::format("{} kinds of device", measured.size()),
                    solved.cut_off ? "; the search was cut off by its "
                                     "time limit"
                                   : "",
                    note)}})
      .dump();
}

Result<Part> SharePlanner::PartOf(const Json& json) {
  reason_ = json["reason"];
  Part part;
  const auto mine = static_cast<std::size_t>(ranks_.rank());
  for (std::size_t r = 0; r < mine; ++r) {
    part.first =
        part.first + BatchSize(json["ranks"][r]["batch"].get<std::int64_t>());
  }
  const Json& rank = json["ranks"][mine];
  part.batch = BatchSize(rank["batch"].get<std::int64_t>());
  part.why = rank["why"];
  if (part.batch == BatchSize(0)) return part;
  prepared_.training.batch = part.batch;
  UCUDNN_ASSIGN_OR_RETURN(
      part.plan, MemoryPlanOf(rank["plan"], prepared_.training, "plan"));
  return part;
}

}  // namespace ucudnn::train
