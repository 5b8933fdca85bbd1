#ifndef UCUDNN_BASE_PROFILE_H_
#define UCUDNN_BASE_PROFILE_H_

// Measured micro-configurations: how long one algorithm takes on one batch of
// one convolution on one kind of device, and the workspace it needs: what plans
// are made from.
//
// The file form is CSV with a header, plain or gzip; columns are found by name
// and unknown ones ignored:
//   device,network,layer,op,precision,layout,batch,algorithm,math,
//   workspace_bytes,time_us
// Optional columns, whose fields may be empty:
//   problem                 the convolution (base/conv_problem.h)
//   spread_us, repeats, error, ...
//                           the other numbers of a point (measured_point.h)
//   measured_on, driver, measured_ms, sm_clock_mhz, memory_clock_mhz, throttle
//                           where they come from (PointOrigin)
//   complete_bytes, complete_driver
//                           up to which workspace every algorithm of the kernel
//                           and batch was measured, and under what
// `precision` is the one that the algorithm computes in. Rows of one point,
// whatever else differs, are repeated measurements of it.
// Rows whose algorithm is NONE are of tasks that are not convolutions: their
// layer is the task's node, their op what base/training/task_times.h lists,
// which reads them. Here those are read whose problem is of other tasks
// (base/other_tasks.h); the others are skipped.

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/accuracy.h"
#include "base/conv_problem.h"
#include "base/measured_point.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// The algorithm of rows that are not of convolutions.
inline constexpr std::string_view kNoAlgorithm = "NONE";

// One layer's one operation as a profile knows it. `precision` is the
// problem's; where the file does not tell the problem, that of the algorithms.
struct KernelId {
  std::string device;
  std::string network;
  std::string layer;
  ConvOp op = ConvOp::kForward;
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;

  friend auto operator<=>(const KernelId&, const KernelId&) = default;
};

// Its layer, operation and precision, as messages name it.
std::string LabelOf(const KernelId& id);

// Every algorithm of a batch was measured up to this workspace.
struct Completeness {
  Bytes max_workspace;
  std::string driver;  // see PointOrigin

  friend bool operator==(const Completeness&, const Completeness&) = default;
};

struct KernelProfile {
  KernelId id;
  // Sorted by batch, then algorithm, then workspace; no two alike in all three.
  std::vector<MeasuredPoint> points;
  // What solvers do not look at.
  std::optional<ConvProblem> problem = {};
  std::vector<PointOrigin> origins = {};  // of each point; empty if unknown
  std::map<BatchSize, Completeness> complete = {};

  friend bool operator==(const KernelProfile&, const KernelProfile&) = default;
};

// Kernels in the order in which the file first names them.
struct Profile {
  std::vector<KernelProfile> kernels;
  // Tasks other than convolutions, which solvers do not look at. `id.layer` is
  // the problem's text (base/other_tasks.h), points' algorithms are tasks.
  std::vector<KernelProfile> others = {};
};

// Reads the CSV in `text` (already decompressed); `source` names it in
// errors, which give the line, the column, the value and what is accepted.
// kInvalidArgument: a column is missing or doubled, a row has another number
// of fields than the header, a field does not parse, or there is no row.
// O(rows log rows).
Result<Profile> ParseProfileCsv(std::string_view text, std::string_view source);

// The same from a file, plain or gzip whatever its name. kNotFound if it
// cannot be opened, kDataLoss if the compressed data is broken,
// kResourceExhausted beyond `max_size` bytes decompressed.
Result<Profile> ReadProfileFile(const std::string& path,
                                Bytes max_size = 1_GiB);

// Writes what ParseProfileCsv reads back as the same kernels; optional columns
// only where they say something.
std::string ToCsv(const Profile& profile);

// Which kernels of a profile are meant; an empty field admits every value.
struct ProfileFilter {
  std::string device = {};
  std::string network = {};
  std::string layer = {};
  std::string op = {};
  std::string precision = {};
  std::string layout = {};
  // The error that algorithms may have (base/accuracy.h).
  double max_error = kDefaultMaxError;
};

// The kernels that `filter` admits, one per layer and operation, with their
// points: all precisions that the asked one admits are merged into one kernel
// of the asked precision, unless the file has the problem in that precision,
// which then has all points that count; without algorithms that err by more
// than admitted. kFailedPrecondition if a kernel has no other; kInvalidArgument
// if a kernel is of two
// problems, if a field of the filter is malformed, or if a
// field left empty is ambiguous (several devices, networks, precisions or
// layouts remain), naming what could be chosen; kNotFound if nothing remains.
Result<Profile> SelectKernels(const Profile& profile,
                              const ProfileFilter& filter);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PROFILE_H_
