#include "client/cli/profile_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/other_tasks.h"

namespace ucudnn {
namespace {

// The problem of a kernel, which may be one that training does not need.
Result<ConvProblem> ProblemOf(const KernelId& id, const Network& network) {
  const auto layer =
      std::ranges::find(network.layers, id.layer, &ConvLayer::name);
  if (layer == network.layers.end()) {
    std::vector<std::string> names;
    for (const ConvLayer& l : network.layers) names.push_back(l.name);
    return Fail(Code::kInvalidArgument,
                "network '{}' has no layer '{}'; it has {}", network.name,
                id.layer, fmt::join(names, ", "));
  }
  Network alone{network.name, {*layer}};
  alone.layers[0].needs_input_gradient = true;
  for (const Kernel& kernel : KernelsOf(alone, id.precision, id.layout)) {
    if (kernel.op == id.op) return kernel.problem;
  }
  return Fail(Code::kInternal, "layer '{}' has no {}", id.layer, Name(id.op));
}

// The kernel's points and those of others of the same layer and operation whose
// precision it admits.
KernelProfile MergedFor(const KernelProfile& kernel, const Profile& profile) {
  const auto place = [](const KernelId& id) {
    return std::tie(id.device, id.network, id.layer, id.op, id.layout);
  };
  struct Source {
    const MeasuredPoint* point;
    const PointOrigin* origin;
  };
  std::vector<Source> sources;
  bool any_origin = false;
  for (const KernelProfile& other : profile.kernels) {
    if (other.problem || place(other.id) != place(kernel.id) ||
        !Admits(kernel.id.precision, other.id.precision)) {
      continue;
    }
    any_origin = any_origin || !other.origins.empty();
    for (std::size_t i = 0; i < other.points.size(); ++i) {
      sources.push_back({&other.points[i],
                         other.origins.empty() ? nullptr : &other.origins[i]});
    }
  }
  std::ranges::stable_sort(sources, {}, [](const Source& source) {
    const MeasuredPoint& p = *source.point;
    return std::tie(p.batch, p.algorithm, p.workspace);
  });
  KernelProfile merged{.id = kernel.id, .points = {}};
  merged.complete = kernel.complete;
  for (const Source& source : sources) {
    merged.points.push_back(*source.point);
    if (!any_origin) continue;
    merged.origins.push_back(source.origin == nullptr ? PointOrigin()
                                                      : *source.origin);
  }
  return merged;
}

}  // namespace

Profile ForNetwork(const Profile& profile, const Network& network,
                   const std::string& hash) {
  std::vector<std::string> devices;
  std::set<std::pair<Precision, Layout>> forms;
  std::map<std::pair<std::string, ConvProblem>, const KernelProfile*> known;
  for (const KernelProfile& kernel : profile.kernels) {
    if (!kernel.problem) continue;
    if (std::ranges::find(devices, kernel.id.device) == devices.end()) {
      devices.push_back(kernel.id.device);
    }
    forms.emplace(kernel.problem->precision, kernel.problem->layout);
    known.try_emplace({kernel.id.device, *kernel.problem}, &kernel);
  }
  Profile result;
  for (const std::string& device : devices) {
    for (const auto& [precision, layout] : forms) {
      for (const Kernel& kernel : KernelsOf(network, precision, layout)) {
        const auto found = known.find({device, kernel.problem});
        if (found == known.end()) continue;
        KernelProfile& added = result.kernels.emplace_back(*found->second);
        added.id = {device,    network.name, kernel.layer,
                    kernel.op, precision,    layout};
      }
    }
  }
  std::ranges::copy_if(profile.others, std::back_inserter(result.others),
                       [&](const KernelProfile& tasks) {
                         const auto read = ParseOtherTasks(tasks.id.layer);
                         return read && read->network == hash;
                       });
  return result;
}

Result<Profile> WithProblems(const Profile& profile, const Network& network) {
  Profile result;
  result.others = profile.others;
  for (const KernelProfile& kernel : profile.kernels) {
    if (kernel.problem) {
      result.kernels.push_back(kernel);
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(const ConvProblem problem,
                            ProblemOf(kernel.id, network));
    result.kernels.push_back(MergedFor(kernel, profile));
    result.kernels.back().problem = problem;
  }
  return result;
}

}  // namespace ucudnn
