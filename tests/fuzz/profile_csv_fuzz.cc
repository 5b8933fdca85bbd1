#include <algorithm>
#include <tuple>

#include "base/profile.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// Points are sorted, each once; what is written reads back; whatever the
// filter, selecting gives kernels or an error that can be printed.
UCUDNN_FUZZ(profile_csv, text) {
  const auto profile = ParseProfileCsv(text, "fuzz");
  if (!profile) return CheckError(profile.error());
  UCUDNN_CHECK(!profile->kernels.empty());
  bool exact = true;
  for (const KernelProfile& kernel : profile->kernels) {
    UCUDNN_CHECK(!kernel.points.empty());
    const auto unordered = std::adjacent_find(
        kernel.points.begin(), kernel.points.end(),
        [](const MeasuredPoint& a, const MeasuredPoint& b) {
          return std::tie(a.batch, a.algorithm, a.workspace) >=
                 std::tie(b.batch, b.algorithm, b.workspace);
        });
    UCUDNN_CHECK(unordered == kernel.points.end());
    for (const MeasuredPoint& point : kernel.points) {
      UCUDNN_CHECK(CheckPoint(point).has_value());
      for (const PointNumber& number : PointNumbers()) {
        exact = exact && number.get(point) < std::int64_t{1} << 51;
      }
    }
  }
  const auto again = ParseProfileCsv(ToCsv(*profile), "again");
  UCUDNN_CHECK(again && again->kernels.size() == profile->kernels.size());
  if (exact) UCUDNN_CHECK(again->kernels == profile->kernels);
  ProfileFilter filter;
  const auto all = SelectKernels(*profile, filter);
  if (!all) CheckError(all.error());
  filter.device = profile->kernels.front().id.device;
  filter.precision = "TRUE_HALF";
  const auto some = SelectKernels(*profile, filter);
  if (!some) CheckError(some.error());
}

}  // namespace ucudnn
