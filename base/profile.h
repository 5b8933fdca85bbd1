#ifndef UCUDNN_BASE_PROFILE_H_
#define UCUDNN_BASE_PROFILE_H_

// Measured micro-configurations: how long one algorithm takes on one batch of
// one convolution on one kind of device, and the workspace it needs. Read from
// CSV files and from the coordinator's store; the solver's only input.
//
// The file form is CSV with a header, plain or gzip; columns are found by name
// and unknown ones ignored:
//   device,network,layer,op,precision,layout,batch,algorithm,math,
//   workspace_bytes,time_us
// Rows that share all but time are repeated measurements of one point. Rows
// whose algorithm is NONE are of tasks that are no convolutions: those belong to
// base/training/task_times.h and are left out here.

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// The algorithm of rows that are not of convolutions.
inline constexpr std::string_view kNoAlgorithm = "NONE";

// What is called to run a convolution: the algorithm as its library names it
// ("FFT_TILING", "jit_wino_4x3:avx512_core"), the math mode of its arithmetic
// ("FMA", "DEFAULT", "TENSOR_OP"; empty where there is no choice), and the
// precision it computes in, which may exceed the one asked for.
struct Algorithm {
  std::string name;
  std::string math;
  Precision precision = Precision::kFp32;

  friend auto operator<=>(const Algorithm&, const Algorithm&) = default;
};

// One micro-configuration with what was measured of it.
struct MeasuredPoint {
  BatchSize batch;
  Algorithm algorithm;
  Bytes workspace;
  Nanoseconds time{0};    // median of the repeats
  Nanoseconds spread{0};  // half the distance of the middle quartiles
  int repeats = 1;
  // The fastest repeat, and what nine of ten repeats do not exceed; 0 where it
  // was not noted.
  Nanoseconds min{0};
  Nanoseconds p90{0};
  // The host's, to enqueue a run; 0 where it was not noted, and where the host
  // computes itself.
  Nanoseconds enqueue{0};

  friend bool operator==(const MeasuredPoint&, const MeasuredPoint&) = default;
};

// One layer's one operation as a profile knows it.
struct KernelId {
  std::string device;
  std::string network;
  std::string layer;
  ConvOp op = ConvOp::kForward;
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;

  friend auto operator<=>(const KernelId&, const KernelId&) = default;
};

struct KernelProfile {
  KernelId id;
  // Sorted by batch, then algorithm, then workspace; no two alike in all three.
  std::vector<MeasuredPoint> points;
};

// Kernels in the order in which the file first names them.
struct Profile {
  std::vector<KernelProfile> kernels;
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

// Writes what ParseProfileCsv reads back as the same kernels, except that a
// point's repeats become one row with their median. Each row has the precision
// of its algorithm: kernels merged by SelectKernels are apart again.
std::string ToCsv(const Profile& profile);

// Which kernels of a profile are meant; an empty field admits every value.
struct ProfileFilter {
  std::string device = {};
  std::string network = {};
  std::string layer = {};
  std::string op = {};
  std::string precision = {};
  std::string layout = {};
};

// The kernels that `filter` admits, one per layer and operation: all rows of
// precisions that the asked one admits are merged into one kernel of the asked
// precision. kInvalidArgument if a field of the filter is malformed, or if a
// field left empty is ambiguous (several devices, networks, precisions or
// layouts remain), naming what could be chosen; kNotFound if nothing remains.
Result<Profile> SelectKernels(const Profile& profile,
                              const ProfileFilter& filter);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PROFILE_H_
