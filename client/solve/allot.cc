#include "client/solve/allot.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/names.h"
#include "base/plan/plan.h"
#include "base/text.h"
#include "solver/joint.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

double ShareOf(std::int64_t parts) {
  return static_cast<double>(parts) / static_cast<double>(kWholeShare);
}

double WeightOf(const JobToAllot& job) {
  return static_cast<double>(job.weight) / static_cast<double>(kUnitWeight);
}

// The kind's model, with only the characters that names may have.
std::string ModelOf(std::string_view kind, char space, bool lower) {
  std::string model(kind.substr(0, kind.find('/')));
  for (char& c : model) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper && lower) c = static_cast<char>(c - 'A' + 'a');
    const bool plain = upper || (c >= 'a' && c <= 'z') ||
                       (c >= '0' && c <= '9') || c == '.' || c == '-' ||
                       c == '_';
    if (!plain) c = space;
  }
  return model;
}

ClusterNames NamesOf(const AllotAnswer& answer, std::size_t kind) {
  const std::string& name = answer.free[kind].kind;
  ClusterNames names;
  const auto known = answer.request.kinds.find(name);
  if (known != answer.request.kinds.end()) names = known->second;
  // As Slurm's and Kubernetes' own discovery of GPUs names them.
  if (names.slurm.empty()) names.slurm = ModelOf(name, '_', true);
  if (names.kubernetes.empty()) names.kubernetes = ModelOf(name, '-', false);
  return names;
}

Status CheckKinds(const std::vector<FreeDevices>& free,
                  const Profile& profile) {
  std::set<std::string> known;
  for (const KernelProfile& kernel : profile.kernels) {
    known.insert(kernel.id.device);
  }
  for (const FreeDevices& devices : free) {
    if (known.contains(devices.kind)) continue;
    std::string names;
    for (const std::string& name : known) {
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", Excerpt(name));
    }
    return Fail(Code::kInvalidArgument,
                "there are no measurements of '{}'; accepted: {}",
                Excerpt(devices.kind), Excerpt(names, 500));
  }
  return {};
}

using Layers = std::set<std::pair<std::string, ConvOp>>;

Layers LayersOf(const Profile& kernels) {
  Layers layers;
  for (const KernelProfile& kernel : kernels.kernels) {
    layers.emplace(kernel.id.layer, kernel.id.op);
  }
  return layers;
}

// A job's kernels on each kind; none where it was not measured. A kind on which
// only some layers were measured would seem too fast.
Result<std::vector<Profile>> KernelsOf(const JobToAllot& job,
                                       const std::vector<FreeDevices>& free,
                                       const Profile& profile,
                                       std::vector<std::string>* notes) {
  std::vector<Profile> kernels;
  Layers all;
  for (const FreeDevices& devices : free) {
    ProfileFilter filter;
    filter.device = devices.kind;
    filter.network = job.network;
    filter.precision = Name(job.precision);
    filter.layout = Name(job.layout);
    auto selected = SelectKernels(profile, filter);
    if (!selected && selected.error().code != Code::kNotFound) {
      return tl::unexpected<Error>(std::move(selected).error());
    }
    if (!selected) {
      notes->push_back(fmt::format(
          "job '{}' uses no '{}': network '{}' was not measured on it in {} "
          "{}",
          job.name, Excerpt(devices.kind), Excerpt(job.network),
          Name(job.precision), Name(job.layout)));
      kernels.emplace_back();
      continue;
    }
    all.merge(LayersOf(*selected));
    if (const std::string note = AccuracyNote(*selected); !note.empty()) {
      notes->push_back(fmt::format("job '{}' on '{}': {}", job.name,
                                   Excerpt(devices.kind), note));
    }
    kernels.push_back(*std::move(selected));
  }
  if (all.empty()) {
    return Fail(Code::kInvalidArgument,
                "network '{}' was not measured in {} {} on any of the kinds",
                Excerpt(job.network), Name(job.precision), Name(job.layout));
  }
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].kernels.empty()) continue;
    const Layers layers = LayersOf(kernels[k]);
    for (const auto& [layer, op] : all) {
      if (layers.contains({layer, op})) continue;
      return Fail(Code::kInvalidArgument,
                  "network '{}' was measured on '{}' without {} {}, which "
                  "another kind has",
                  Excerpt(job.network), Excerpt(free[k].kind), Excerpt(layer),
                  Name(op));
    }
  }
  return kernels;
}

Result<AllotJob> ToSolve(const JobToAllot& job, std::vector<Profile> kernels) {
  AllotJob added;
  added.batch = job.batch;
  added.weight = job.weight;
  added.least = job.least;
  added.most = job.most;
  added.communication = job.communication;
  for (Profile& of_kind : kernels) {
    auto& table = added.tables.emplace_back();
    if (of_kind.kernels.empty()) continue;
    JointKind kind;
    kind.kernels = std::move(of_kind);
    kind.workspace_limit = job.workspace_limit;
    kind.policy = job.policy;
    kind.fixed = job.fixed;
    kind.per_image = job.per_image;
    UCUDNN_ASSIGN_OR_RETURN(table, IterationTimes(kind, job.batch, {}));
  }
  return added;
}

// Errors of the solver name jobs by their index.
Error WithName(Error error, const std::vector<JobToAllot>& jobs) {
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (const char end : {':', ' '}) {
      const std::string prefix = fmt::format("job {}{}", j, end);
      if (!error.message.starts_with(prefix)) continue;
      error.message = fmt::format("job '{}'{}", jobs[j].name, end) +
                      error.message.substr(prefix.size());
      return error;
    }
  }
  return error;
}

Json JobJson(const AllotAnswer& answer, std::size_t j) {
  const JobToAllot& job = answer.request.jobs[j];
  const JobAllotment& allotted = answer.allotment.jobs[j];
  Json json;
  json["name"] = job.name;
  json["network"] = job.network;
  json["batch"] = job.batch.count();
  json["weight"] = WeightOf(job);
  json["step_us"] = Microseconds(allotted.step);
  json["alone_us"] = Microseconds(allotted.alone);
  json["share"] = ShareOf(allotted.share);
  json["devices"] = Json::array();
  for (std::size_t k = 0; k < answer.free.size(); ++k) {
    if (allotted.devices[k] == 0) continue;
    json["devices"].push_back(
        {{"kind", answer.free[k].kind}, {"count", allotted.devices[k]}});
  }
  json["ranks"] = Json::array();
  for (const DeviceShare& share : allotted.shares) {
    json["ranks"].push_back(
        {{"kind", answer.free[share.kind].kind},
         {"batch", share.batch.count()},
         {"weight", static_cast<double>(share.batch.count()) /
                        static_cast<double>(job.batch.count())},
         {"time_us", Microseconds(share.time)}});
  }
  json["slurm"] = SlurmOptions(answer, j);
  json["kubernetes"] = KubernetesSelectors(answer, j);
  return json;
}

}  // namespace

Result<std::vector<FreeDevices>> ParseFreeDevices(std::string_view text) {
  std::vector<FreeDevices> free;
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    const std::size_t equals = part.rfind('=');
    if (equals == std::string_view::npos || equals == 0) {
      return Fail(Code::kInvalidArgument,
                  "'{}'; KIND=COUNT is accepted, with ',' between kinds",
                  Excerpt(part));
    }
    FreeDevices devices;
    devices.kind = part.substr(0, equals);
    const auto count =
        ParseInteger(part.substr(equals + 1), 0, kMaxAllotDevices);
    if (!count) return Within(Excerpt(devices.kind), count.error());
    devices.count = *count;
    for (const FreeDevices& other : free) {
      if (other.kind != devices.kind) continue;
      return Fail(Code::kInvalidArgument, "'{}' comes twice",
                  Excerpt(devices.kind));
    }
    free.push_back(std::move(devices));
    if (free.size() > kMaxAllotKinds) {
      return Fail(Code::kInvalidArgument, "more than {} kinds", kMaxAllotKinds);
    }
    if (part.size() == text.size()) return free;
    text.remove_prefix(part.size() + 1);
  }
}

std::string_view Name(AllotGoal goal) {
  return goal == AllotGoal::kMaxMinShare ? "share" : "throughput";
}

Result<AllotGoal> ParseAllotGoal(std::string_view text) {
  return ParseName(text,
                   std::array{AllotGoal::kMaxMinShare, AllotGoal::kThroughput},
                   "a goal");
}

Result<AllotAnswer> SolveAllot(
    JobsToAllot request, std::vector<FreeDevices> free, const Profile& profile,
    AllotGoal goal, const Limits& limits,
    const std::function<void(const AllotProgress&)>& progress) {
  AllotAnswer answer;
  answer.request = std::move(request);
  answer.free = std::move(free);
  UCUDNN_RETURN_IF_ERROR(CheckKinds(answer.free, profile));
  answer.problem.goal = goal;
  for (const FreeDevices& devices : answer.free) {
    answer.problem.free.push_back(devices.count);
  }
  for (const JobToAllot& job : answer.request.jobs) {
    auto kernels = KernelsOf(job, answer.free, profile, &answer.notes);
    const auto name = [&] { return fmt::format("job '{}'", job.name); };
    if (!kernels) return Within(name(), std::move(kernels).error());
    auto added = ToSolve(job, *std::move(kernels));
    if (!added) return Within(name(), std::move(added).error());
    answer.problem.jobs.push_back(*std::move(added));
  }
  auto allotment = SolveAllotment(answer.problem, limits, progress);
  if (!allotment) {
    return tl::unexpected<Error>(
        WithName(std::move(allotment).error(), answer.request.jobs));
  }
  answer.allotment = *std::move(allotment);
  return answer;
}

Json ToJson(const AllotAnswer& answer) {
  const Allotment& allotment = answer.allotment;
  Json json;
  json["goal"] = Name(answer.problem.goal);
  json["objective"] = ShareOf(allotment.objective);
  json["bound"] = ShareOf(allotment.bound);
  json["optimal"] = allotment.optimal;
  json["devices"] = Json::array();
  for (std::size_t k = 0; k < answer.free.size(); ++k) {
    std::int64_t left = answer.free[k].count;
    for (const JobAllotment& job : allotment.jobs) left -= job.devices[k];
    json["devices"].push_back({{"kind", answer.free[k].kind},
                               {"count", answer.free[k].count},
                               {"left", left}});
  }
  json["jobs"] = Json::array();
  for (std::size_t j = 0; j < allotment.jobs.size(); ++j) {
    json["jobs"].push_back(JobJson(answer, j));
  }
  json["notes"] = answer.notes;
  return json;
}

std::string SlurmOptions(const AllotAnswer& answer, std::size_t job) {
  std::string options;
  const JobAllotment& allotted = answer.allotment.jobs[job];
  for (std::size_t k = 0; k < allotted.devices.size(); ++k) {
    if (allotted.devices[k] == 0) continue;
    if (!options.empty()) options += " : ";
    options += fmt::format("--ntasks={} --gpus-per-task={}:1",
                           allotted.devices[k], NamesOf(answer, k).slurm);
  }
  return options;
}

Json KubernetesSelectors(const AllotAnswer& answer, std::size_t job) {
  Json pods = Json::array();
  const JobAllotment& allotted = answer.allotment.jobs[job];
  for (std::size_t k = 0; k < allotted.devices.size(); ++k) {
    if (allotted.devices[k] == 0) continue;
    Json pod;
    pod["replicas"] = allotted.devices[k];
    pod["nodeSelector"]["nvidia.com/gpu.product"] =
        NamesOf(answer, k).kubernetes;
    pod["resources"]["limits"]["nvidia.com/gpu"] = 1;
    pods.push_back(std::move(pod));
  }
  return pods;
}

}  // namespace ucudnn
