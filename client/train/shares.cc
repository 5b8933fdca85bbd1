#include "client/train/shares.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "base/files/file.h"
#include "base/plan/even_shares.h"
#include "base/plan/plan.h"
#include "base/service/time_limit.h"
#include "base/text.h"
#include "base/training/json.h"
#include "client/session/config.h"
#include "client/train/measurements.h"
#include "client/training/link_under_load.h"
#include "solver/joint_memory.h"

namespace ucudnn::train {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Longer than any rank measures or plans.
constexpr std::chrono::hours kPatience{4};
Ranks::Deadline InTime() { return Clock::now() + kPatience; }

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

BatchSize ShareStep(BatchSize batch, int ranks) {
  constexpr std::int64_t kFewest = 8;
  std::int64_t parts = std::max<std::int64_t>(kFewest, ranks);
  while (parts < batch.count() && batch.count() % parts != 0) ++parts;
  return BatchSize(std::max<std::int64_t>(batch.count() / parts, 1));
}

Status SharePlanner::Together(const Status& mine) {
  UCUDNN_ASSIGN_OR_RETURN(Status all, ranks_.AllOf(mine, InTime()));
  return all;
}

Result<Part> SharePlanner::Plan(const std::stop_token& stop) {
  input_ = request_.input;
  const bool together = ranks_.size() > 1 && !request_.even;
  UCUDNN_RETURN_IF_ERROR(ReadKnown());
  UCUDNN_ASSIGN_OR_RETURN(Part part,
                          together ? PlanTogether(stop) : PlanAlone(stop));
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
  return {};
}

Status SharePlanner::WriteKnown() {
  if (request_.measurements.empty()) return {};
  Status written;
  const std::size_t before = read_.size();
  read_.merge(known_);
  if (ranks_.rank() == 0 && read_.size() > before) {
    Json json = Json::object();
    for (const auto& [key, text] : read_) json[key] = Json::parse(text);
    written = ReplaceFile(request_.measurements, json.dump() + "\n");
  }
  return Together(written);
}

Status SharePlanner::Measure(const std::vector<BatchSize>& batches,
                             const std::stop_token& stop) {
  input_.batches = batches;
  std::string key = fmt::format(
      "{} {} at {}, {} {}", ShortHash(input_.contents),
      Name(input_.graph.precision), prepared_.training.batch.count(),
      ToString(device_.info().kind), device_.info().driver);
  for (const BatchSize batch : batches)
    key += fmt::format(" {}", batch.count());
  if (input_.model) key += ' ' + ShortHash(ToJson(*input_.model).dump());
  key += " tasks " + HashOf(prepared_.training);
  UCUDNN_ASSIGN_OR_RETURN(keys_, ranks_.AllGather(key, InTime()));
  const auto first = std::ranges::find(keys_, key) - keys_.begin();
  const bool measures = first == ranks_.rank() && !read_.contains(key);
  for (int turn = 0; turn < turns_.all; ++turn) {
    UCUDNN_RETURN_IF_ERROR(Together(
        measures && turn == turns_.mine ? MeasureMine(stop) : Status()));
  }
  std::string mine;
  if (measures) mine = MeasurementsOf(prepared_.training).dump();
  UCUDNN_ASSIGN_OR_RETURN(std::vector<std::string> texts,
                          ranks_.AllGather(mine, InTime()));
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (const auto read = read_.find(keys_[r]); read != read_.end()) {
      known_[keys_[r]] = read->second;
    } else if (!texts[r].empty()) {
      known_[keys_[r]] = std::move(texts[r]);
    }
  }
  Status set =
      SetMeasurements(Json::parse(known_.at(key)), &prepared_.training);
  if (!set && read_.contains(key)) {
    set = Within(Excerpt(request_.measurements), std::move(set).error());
  }
  return Together(set);
}

Status SharePlanner::MeasureMine(const std::stop_token& stop) {
  return MeasureTraining(device_, operators_, input_, stop, &prepared_);
}

Result<Part> SharePlanner::PlanAlone(const std::stop_token& stop) {
  const std::vector<BatchSize> shares = EvenShares(
      prepared_.training.batch, static_cast<std::size_t>(ranks_.size()));
  if (shares.back() == BatchSize(0)) {
    return Fail(Code::kInvalidArgument,
                "--even: {} images on {} ranks; at least one for each is "
                "accepted",
                prepared_.training.batch.count(), ranks_.size());
  }
  Part part;
  part.first = std::accumulate(shares.begin(), shares.begin() + ranks_.rank(),
                               BatchSize(0));
  part.batch = shares[static_cast<std::size_t>(ranks_.rank())];
  prepared_.training.batch = part.batch;
  UCUDNN_RETURN_IF_ERROR(Measure(MeasuredBatches(part.batch), stop));
  TrainingRequest request = request_.plan;
  request.budget = request_.budgets[static_cast<std::size_t>(ranks_.rank())];
  auto plan = PlanTraining(prepared_, request, stop);
  UCUDNN_RETURN_IF_ERROR(
      Together(plan ? Status() : Status(tl::unexpected<Error>(plan.error()))));
  part.plan = *std::move(plan);
  if (ranks_.size() == 1) UCUDNN_RETURN_IF_ERROR(MeasureLink(stop, &part));
  reason_ = ranks_.size() == 1 ? "planned from measurements of this device"
                               : "an even split, each rank planned by itself";
  reason_ += AccuracyOf(prepared_.training);
  return part;
}

// Copies are slower beside the network's kernels than alone.
Status SharePlanner::MeasureLink(const std::stop_token& stop, Part* part) {
  const std::string& key = keys_[0];
  if (input_.model || part->plan->offloaded == Bytes() || read_.contains(key)) {
    return {};
  }
  ExecutionOptions execution;
  execution.allow_sub_batch_statistics =
      request_.plan.allow_sub_batch_statistics;
  DeviceBuffer host;
  UCUDNN_ASSIGN_OR_RETURN(
      const bool changed,
      MeasureLinkUnderLoad(device_, operators_, prepared_, *part->plan,
                           execution, stop, &host, &prepared_.training.device));
  if (!changed) return {};
  known_[key] = MeasurementsOf(prepared_.training).dump();
  UCUDNN_RETURN_IF_ERROR(
      SetMeasurements(Json::parse(known_[key]), &prepared_.training));
  TrainingRequest request = request_.plan;
  request.budget = request_.budgets[0];
  UCUDNN_ASSIGN_OR_RETURN(part->plan, PlanTraining(prepared_, request, stop));
  return {};
}

Result<Part> SharePlanner::PlanTogether(const std::stop_token& stop) {
  const BatchSize batch = prepared_.training.batch;
  const BatchSize step = ShareStep(batch, ranks_.size());
  std::vector<BatchSize> batches;
  for (BatchSize share = step; share <= batch; share = share + step) {
    batches.push_back(share);
  }
  UCUDNN_RETURN_IF_ERROR(Measure(batches, stop));
  Result<std::string> answer = std::string();
  if (ranks_.rank() == 0) answer = Solve(stop);
  UCUDNN_RETURN_IF_ERROR(Together(
      answer ? Status() : Status(tl::unexpected<Error>(answer.error()))));
  UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&*answer, InTime()));
  auto part = PartOf(*answer);
  UCUDNN_RETURN_IF_ERROR(
      Together(part ? Status() : Status(tl::unexpected<Error>(part.error()))));
  return part;
}

Result<std::string> SharePlanner::Solve(const std::stop_token& stop) {
  const TimeLimit limit(request_.plan.time_limit, stop);
  JointMemoryProblem problem;
  problem.batch = prepared_.training.batch;
  problem.step = ShareStep(problem.batch, ranks_.size());
  UCUDNN_ASSIGN_OR_RETURN(problem.policy,
                          FindTrainingPolicy(request_.plan.policy));
  problem.request = MemoryRequestOf(request_.plan);
  problem.request.stop = limit.token();
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
  }
  UCUDNN_ASSIGN_OR_RETURN(const JointMemoryPlan solved,
                          SolveJointMemory(problem));
  std::string note;  // the first kind's that has one
  for (const JointMemoryKind& kind : problem.kinds) {
    if (note.empty()) note = AccuracyOf(kind.graph);
  }
  Json ranks = Json::array();
  for (std::size_t r = 0; r < keys_.size(); ++r) {
    const BatchSize batch = solved.assignment.shares[r].batch;
    Json rank = {{"batch", batch.count()}, {"why", solved.shares[r].text}};
    const std::size_t kind = problem.gpus[r];
    if (batch > BatchSize(0)) {
      rank["plan"] = ToJson(solved.plans.at({kind, batch}),
                            AtBatch(problem.kinds[kind], batch));
    }
    ranks.push_back(std::move(rank));
  }
  const std::set<std::string> measured(keys_.begin(), keys_.end());
  return Json({{"ranks", std::move(ranks)},
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

Result<Part> SharePlanner::PartOf(const std::string& answer) {
  const Json json = Json::parse(answer);
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
