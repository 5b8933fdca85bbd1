#include "client/solve/joint_memory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "base/plan/plan.h"
#include "base/service/time_limit.h"
#include "base/training/json.h"

namespace ucudnn {
namespace {

using OrderedJson = nlohmann::ordered_json;

bool Alike(const JointMemoryGpu& a, const JointMemoryGpu& b) {
  const auto contents = [](const JointMemoryGpu& gpu) {
    return gpu.profile ? std::string_view(gpu.profile->contents) : "";
  };
  return a.device == b.device && a.budget == b.budget &&
         contents(a) == contents(b);
}

}  // namespace

const MemoryPlan* JointMemoryAnswer::PlanOf(std::size_t gpu) const {
  const auto found =
      plan.plans.find({problem.gpus[gpu], plan.assignment.shares[gpu].batch});
  return found == plan.plans.end() ? nullptr : &found->second;
}

std::string JointMemoryAnswer::WhyOf(std::size_t gpu) const {
  return WhyShare(problem, plan, gpu);
}

Result<JointMemoryAnswer> SolveJointMemory(const MemoryProblem& problem,
                                           std::vector<JointMemoryGpu> gpus,
                                           BatchSize step) {
  JointMemoryAnswer answer;
  JointMemoryProblem& joint = answer.problem;
  joint.batch = problem.batch;
  joint.step = step;
  joint.request = problem.request;
  UCUDNN_ASSIGN_OR_RETURN(joint.policy, PolicyOf(problem));
  std::vector<std::size_t> firsts;  // of each kind
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    JointMemoryGpu& gpu = gpus[g];
    if (gpu.budget == Bytes(0)) gpu.budget = gpu.device.memory;
    const auto like = std::find_if(
        firsts.begin(), firsts.end(),
        [&](std::size_t other) { return Alike(gpus[other], gpu); });
    joint.gpus.push_back(static_cast<std::size_t>(like - firsts.begin()));
    if (like != firsts.end()) continue;
    firsts.push_back(g);
    MemoryProblem of_kind = problem;
    of_kind.device = gpu.device;
    of_kind.profile = gpu.profile;
    JointMemoryKind& kind = joint.kinds.emplace_back();
    UCUDNN_ASSIGN_OR_RETURN(kind, KindOf(of_kind));
    kind.budget = gpu.budget;
    const std::string note = AccuracyNote(kind.convolutions);
    if (!note.empty()) answer.notes.push_back(gpu.name + ": " + note);
  }
  answer.gpus = std::move(gpus);
  const TimeLimit limit(problem.time_limit, problem.request.stop);
  joint.request.stop = limit.token();
  UCUDNN_ASSIGN_OR_RETURN(answer.plan, SolveJointMemory(joint));
  return answer;
}

OrderedJson ToJson(const JointMemoryAnswer& answer) {
  const JointMemoryPlan& joint = answer.plan;
  const double batch = static_cast<double>(answer.problem.batch.count());
  OrderedJson plans = OrderedJson::array();
  std::map<std::pair<std::size_t, BatchSize>, std::size_t> places;
  for (const auto& [place, plan] : joint.plans) {
    places.emplace(place, plans.size());
    const TrainingGraph graph =
        AtBatch(answer.problem.kinds[place.first], place.second);
    plans.push_back(ToJsonWithGraph(plan, graph));
  }
  OrderedJson gpus = OrderedJson::array();
  for (std::size_t g = 0; g < answer.gpus.size(); ++g) {
    const Share& share = joint.assignment.shares[g];
    const auto place = places.find({answer.problem.gpus[g], share.batch});
    gpus.push_back(
        {{"gpu", answer.gpus[g].name},
         {"budget_bytes", answer.gpus[g].budget.count()},
         {"batch", share.batch.count()},
         {"weight", static_cast<double>(share.batch.count()) / batch},
         {"time_us", Microseconds(share.time)},
         {"binding", Name(joint.shares[g].binding)},
         {"why", answer.WhyOf(g)},
         {"whole_batch", joint.whole[answer.problem.gpus[g]].count()},
         {"plan", place == places.end() ? OrderedJson(nullptr)
                                        : OrderedJson(place->second)}});
  }
  OrderedJson json = {
      {"batch", answer.problem.batch.count()},
      {"makespan_us", Microseconds(joint.assignment.makespan)},
      {"lower_bound_us", Microseconds(joint.lower_bound)},
      {"cut_off", joint.cut_off},
      {"makespan_whole_us",
       joint.makespan_whole ? OrderedJson(Microseconds(*joint.makespan_whole))
                            : OrderedJson(nullptr)},
      {"planned", joint.planned},
      {"gpus", std::move(gpus)},
      {"plans", std::move(plans)}};
  if (!answer.notes.empty()) json["notes"] = answer.notes;
  return json;
}

}  // namespace ucudnn
