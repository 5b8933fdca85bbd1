#include "client/solve/answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/files/csv.h"
#include "base/plan/plan_json.h"

namespace ucudnn {
namespace {

// GPUs with equal times share a table.
AssignProblem ProblemOf(const std::vector<GpuTimes>& gpus, BatchSize batch) {
  AssignProblem problem;
  problem.batch = batch;
  std::vector<const GpuTimes*> owners;
  for (const GpuTimes& gpu : gpus) {
    const auto same = std::find_if(
        owners.begin(), owners.end(),
        [&](const GpuTimes* owner) { return owner->times == gpu.times; });
    AssignGpu added;
    added.table = static_cast<std::size_t>(same - owners.begin());
    problem.gpus.push_back(std::move(added));
    if (same != owners.end()) continue;
    owners.push_back(&gpu);
    auto& table = problem.tables.emplace_back();
    table.reserve(gpu.times.size());
    for (const BatchTime& time : gpu.times) {
      table.push_back({time.batch, time.time, Bytes(0)});
    }
  }
  return problem;
}

Status CheckOneKernel(const Profile& kernels) {
  if (kernels.kernels.size() == 1) return {};
  std::string names;
  for (const KernelProfile& kernel : kernels.kernels) {
    if (names.size() > 200) {
      names += ", ...";
      break;
    }
    if (!names.empty()) names += ", ";
    names += fmt::format("{} {}", kernel.id.layer, Name(kernel.id.op));
  }
  return Fail(
      Code::kInvalidArgument,
      "a front is for one kernel, but {} are selected; choose one by layer "
      "and op: {}",
      kernels.kernels.size(), names);
}

void AddNote(const std::string& note, nlohmann::ordered_json* json) {
  if (!note.empty()) (*json)["notes"] = {note};
}

}  // namespace

double AssignAnswer::Weight(std::size_t gpu) const {
  return static_cast<double>(assignment.shares[gpu].batch.count()) /
         static_cast<double>(problem.batch.count());
}

Result<AssignAnswer> SolveAssign(std::vector<GpuTimes> gpus, BatchSize batch,
                                 const SolveAssignmentBy& solve) {
  AssignAnswer answer;
  answer.gpus = std::move(gpus);
  answer.problem = ProblemOf(answer.gpus, batch);
  UCUDNN_ASSIGN_OR_RETURN(
      answer.assignment,
      solve ? solve(answer.problem) : SolveAssignment(answer.problem));
  answer.even_split = EvenSplit(answer.problem);
  answer.shares = ExplainShares(answer.problem, answer.assignment);
  UCUDNN_ASSIGN_OR_RETURN(answer.gains,
                          MarginalGains(answer.problem, answer.assignment));
  return answer;
}

nlohmann::ordered_json ToJson(const AssignAnswer& answer) {
  nlohmann::ordered_json json;
  json["batch"] = answer.problem.batch.count();
  json["makespan_us"] = Microseconds(answer.assignment.makespan);
  json["lower_bound_us"] = Microseconds(answer.assignment.lower_bound);
  json["optimal"] = answer.assignment.lower_bound == answer.assignment.makespan;
  json["even_split_us"] = nullptr;
  if (answer.even_split.has_value()) {
    json["even_split_us"] = Microseconds(*answer.even_split);
  }
  json["gpus"] = nlohmann::ordered_json::array();
  for (std::size_t g = 0; g < answer.gpus.size(); ++g) {
    const Share& share = answer.assignment.shares[g];
    nlohmann::ordered_json gpu;
    gpu["gpu"] = answer.gpus[g].gpu;
    gpu["batch"] = share.batch.count();
    gpu["time_us"] = Microseconds(share.time);
    gpu["weight"] = answer.Weight(g);
    gpu["binding"] = Name(answer.shares[g].binding);
    gpu["reason"] = answer.shares[g].text;
    json["gpus"].push_back(std::move(gpu));
  }
  json["one_more"] = nlohmann::ordered_json::array();
  for (const MarginalGain& gain : answer.gains) {
    nlohmann::ordered_json more;
    more["like"] = answer.gpus[gain.gpu].gpu;
    more["makespan_us"] = Microseconds(gain.makespan);
    more["gain_us"] = Microseconds(gain.gain);
    json["one_more"].push_back(std::move(more));
  }
  return json;
}

Result<ParetoFront> SolveFront(const Profile& kernels,
                               const WrRequest& request) {
  UCUDNN_RETURN_IF_ERROR(CheckOneKernel(kernels));
  const KernelProfile& kernel = kernels.kernels[0];
  auto front = SolvePareto(kernel.points, request);
  if (front) return front;
  return Within(LabelOf(kernel.id), std::move(front).error());
}

nlohmann::ordered_json ToJson(const ParetoFront& front,
                              const Profile& kernels) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < front.points().size(); ++i) {
    nlohmann::ordered_json point;
    point["time_us"] = Microseconds(front.points()[i].time);
    point["workspace_bytes"] = front.points()[i].workspace.count();
    point["micro_batches"] = ToJson(front.PlanAt(i));
    points.push_back(std::move(point));
  }
  nlohmann::ordered_json json;
  json["front"] = std::move(points);
  AddNote(AccuracyNote(kernels), &json);
  return json;
}

nlohmann::ordered_json ToJson(const WorkspacePlan& plan,
                              const Profile& kernels) {
  nlohmann::ordered_json json = ToJson(plan);
  AddNote(AccuracyNote(kernels, plan), &json);
  return json;
}

nlohmann::ordered_json ToJson(const Allocation& allocation,
                              const NamedBuffers& buffers) {
  nlohmann::ordered_json json;
  json["load"] = allocation.load.count();
  json["pool"] = allocation.pool.count();
  json["lower_bound"] = allocation.lower_bound.count();
  json["proven"] = allocation.proven;
  json["buffers"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < buffers.ids.size(); ++i) {
    json["buffers"].push_back(
        {{"id", buffers.ids[i]}, {"offset", allocation.offsets[i].count()}});
  }
  return json;
}

std::string ToCsv(const Allocation& allocation, const NamedBuffers& buffers) {
  std::string csv = "id,offset\n";
  for (std::size_t i = 0; i < buffers.ids.size(); ++i) {
    AppendCsvField(&csv, buffers.ids[i]);
    csv += fmt::format(",{}\n", allocation.offsets[i].count());
  }
  return csv;
}

}  // namespace ucudnn
