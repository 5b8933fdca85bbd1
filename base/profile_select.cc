// Names of kernels, and the part of a profile that a request means.

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/profile.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using Kernels = std::vector<const KernelProfile*>;
using FieldOf = std::function<std::string(const KernelId&)>;

// The distinct values of a field.
std::set<std::string> Values(const Kernels& kernels, const FieldOf& field) {
  std::set<std::string> values;
  for (const KernelProfile* kernel : kernels) values.insert(field(kernel->id));
  return values;
}

std::string Listed(const std::set<std::string>& values) {
  constexpr std::size_t kShown = 32;
  std::string list;
  std::size_t shown = 0;
  for (const std::string& value : values) {
    if (shown++ > 0) list += ", ";
    if (shown > kShown) return list + "...";
    list += Excerpt(value);
  }
  return list;
}

// Keeps the kernels whose field `admits`; none may remain only if none was.
Status Keep(std::string_view what, std::string_view asked, const FieldOf& field,
            const std::function<bool(const KernelId&)>& admits,
            Kernels* kernels) {
  Kernels kept;
  std::copy_if(kernels->begin(), kernels->end(), std::back_inserter(kept),
               [&](const KernelProfile* kernel) { return admits(kernel->id); });
  if (kept.empty()) {
    return Fail(Code::kNotFound, "nothing is measured of {} '{}'; there is {}",
                what, Excerpt(asked), Listed(Values(*kernels, field)));
  }
  *kernels = std::move(kept);
  return {};
}

Status Unambiguous(std::string_view what, const FieldOf& field,
                   const Kernels& kernels) {
  const std::set<std::string> values = Values(kernels, field);
  if (values.size() == 1) return {};
  return Fail(Code::kInvalidArgument,
              "several {}s are measured; choose one of {}", what,
              Listed(values));
}

// Adds to a kernel the points of another one of the same layer and operation,
// in the asked precision. Where one tells its problem in that precision, it has
// all points that count. Otherwise the precisions differ, and no two points are
// alike, because the precision is part of the algorithm.
Status Merge(const KernelProfile& kernel, Precision precision,
             KernelProfile* merged) {
  const auto is_whole = [precision](const KernelProfile& k) {
    return k.problem && k.problem->precision == precision;
  };
  if (kernel.problem && merged->problem && kernel.problem != merged->problem &&
      kernel.problem->precision == merged->problem->precision) {
    return Fail(Code::kInvalidArgument,
                "layer {} {} is of two problems, {} and {}; one is accepted",
                kernel.id.layer, Name(kernel.id.op), ToString(*merged->problem),
                ToString(*kernel.problem));
  }
  if (is_whole(*merged)) return {};
  if (is_whole(kernel)) {
    merged->points = kernel.points;
    merged->problem = kernel.problem;
    return {};
  }
  const auto before = [](const MeasuredPoint& a, const MeasuredPoint& b) {
    return std::tie(a.batch, a.algorithm, a.workspace) <
           std::tie(b.batch, b.algorithm, b.workspace);
  };
  std::vector<MeasuredPoint>& points = merged->points;
  const auto middle =
      points.insert(points.end(), kernel.points.begin(), kernel.points.end());
  std::inplace_merge(points.begin(), middle, points.end(), before);
  return {};
}

}  // namespace

std::string LabelOf(const KernelId& id) {
  return fmt::format("{}{}{} {}", id.layer, id.layer.empty() ? "" : " ",
                     Name(id.op), Name(id.precision));
}

Result<Profile> SelectKernels(const Profile& profile,
                              const ProfileFilter& filter) {
  struct Field {
    std::string_view what;
    std::string_view asked;
    FieldOf value;
    bool many;  // whether several values may remain
  };
  const std::array<Field, 6> fields = {
      Field{"device", filter.device,
            [](const KernelId& id) { return id.device; }, false},
      Field{"network", filter.network,
            [](const KernelId& id) { return id.network; }, false},
      Field{"layer", filter.layer, [](const KernelId& id) { return id.layer; },
            true},
      Field{"op", filter.op,
            [](const KernelId& id) { return std::string(Name(id.op)); }, true},
      Field{"precision", filter.precision,
            [](const KernelId& id) { return std::string(Name(id.precision)); },
            false},
      Field{"layout", filter.layout,
            [](const KernelId& id) { return std::string(Name(id.layout)); },
            false}};
  if (!filter.op.empty()) UCUDNN_RETURN_IF_ERROR(ParseConvOp(filter.op));
  if (!filter.layout.empty())
    UCUDNN_RETURN_IF_ERROR(ParseLayout(filter.layout));
  std::optional<Precision> asked_precision;
  if (!filter.precision.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(asked_precision, ParsePrecision(filter.precision));
  }

  if (profile.kernels.empty()) {
    return Fail(Code::kNotFound, "nothing is measured");
  }
  Kernels kernels;
  for (const KernelProfile& kernel : profile.kernels) {
    kernels.push_back(&kernel);
  }
  for (const Field& field : fields) {
    if (field.asked.empty()) continue;
    UCUDNN_RETURN_IF_ERROR(Keep(
        field.what, field.asked, field.value,
        [&](const KernelId& id) {
          return field.what == "precision"
                     ? Admits(*asked_precision, id.precision)
                     : field.value(id) == field.asked;
        },
        &kernels));
  }
  for (const Field& field : fields) {
    if (field.many || !field.asked.empty()) continue;
    UCUDNN_RETURN_IF_ERROR(Unambiguous(field.what, field.value, kernels));
  }

  Profile selected;
  std::map<KernelId, std::size_t> places;
  for (const KernelProfile* kernel : kernels) {
    KernelId id = kernel->id;
    id.precision = asked_precision.value_or(id.precision);
    const auto [place, is_new] = places.emplace(id, selected.kernels.size());
    if (is_new) {
      KernelProfile& added = selected.kernels.emplace_back();
      added.id = std::move(id);
      added.points = kernel->points;
      added.problem = kernel->problem;
    } else {
      const Precision precision = id.precision;
      UCUDNN_RETURN_IF_ERROR(
          Merge(*kernel, precision, &selected.kernels[place->second]));
    }
  }
  for (KernelProfile& kernel : selected.kernels) {
    UCUDNN_RETURN_IF_ERROR(KeepAccurate(kernel.id.precision, filter.max_error,
                                        &kernel.points, LabelOf(kernel.id)));
  }
  return selected;
}

}  // namespace ucudnn
