// SelectKernels: the part of a profile that a request means.

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

// Appends points of another precision; no two are alike, because the precision
// is part of the algorithm.
void Merge(const std::vector<MeasuredPoint>& points,
           std::vector<MeasuredPoint>* merged) {
  const auto before = [](const MeasuredPoint& a, const MeasuredPoint& b) {
    return std::tie(a.batch, a.algorithm, a.workspace) <
           std::tie(b.batch, b.algorithm, b.workspace);
  };
  const auto middle =
      merged->insert(merged->end(), points.begin(), points.end());
  std::inplace_merge(merged->begin(), middle, merged->end(), before);
}

}  // namespace

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
      selected.kernels.push_back({std::move(id), kernel->points});
    } else {
      Merge(kernel->points, &selected.kernels[place->second].points);
    }
  }
  return selected;
}

}  // namespace ucudnn
