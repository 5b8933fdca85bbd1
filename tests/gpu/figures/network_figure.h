#ifndef UCUDNN_TESTS_GPU_FIGURES_NETWORK_FIGURE_H_
#define UCUDNN_TESTS_GPU_FIGURES_NETWORK_FIGURE_H_

// What dividing gains for the convolutions of one iteration of a network, all
// kernels sharing one arena: they run one after the other, so each may use the
// whole of it.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/network.h"
#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"
#include "tests/gpu/figures/points.h"

namespace ucudnn::figures {

struct Job {
  Network network;
  BatchSize batch;
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;
  std::vector<Bytes> limits;      // of the curve, rising
  std::vector<Bytes> fit_limits;  // for which batches that just fit are tried
  // Those at which the plan is also run; at the first its results are checked.
  std::vector<Bytes> run_limits;
  // Those for which each kernel's part is told.
  std::vector<Bytes> detail_limits;
};

// A kernel's part of a plan.
struct KernelFigure {
  Nanoseconds planned{0};
  // The whole batch at the rate of the measured point that is fastest an image:
  // no division of such points is faster.
  Nanoseconds bound{0};
  Bytes workspace;
  std::vector<MicroBatch> micro_batches;
  // Where the plan was run: this kernel alone, divided, back to back.
  std::optional<Nanoseconds> measured;
};

// Under one limit. Sums over the kernels; absent where a kernel has none.
struct LimitFigure {
  Bytes limit;
  std::optional<Nanoseconds> planned;           // of all measured batches
  std::optional<Nanoseconds> powers_of_two;     // of these alone
  Bytes arena;                                  // of the plan
  std::optional<Nanoseconds> undivided;         // the fastest that fits
  std::optional<Nanoseconds> undivided_legacy;  // of the first interface
  // The planned convolutions back to back, median: between events, from the
  // host's side without waiting, and with all of it enqueued before it starts.
  std::optional<Nanoseconds> measured;
  std::optional<Nanoseconds> enqueued;
  std::optional<Nanoseconds> device_alone;
  // The times of which that is the median, after those to warm up: whether the
  // device grew slower under the load. And its state while it ran.
  std::vector<Nanoseconds> rounds;
  std::string clocks;
  // The largest error of some elements of every kernel's result, in units of
  // what its precision explains.
  std::optional<double> error;
  std::string note;                   // why something is absent
  std::vector<KernelFigure> kernels;  // where they are asked for
};

struct NetworkFigure {
  std::vector<LimitFigure> limits;
  Profile profile;  // of every kernel
  double seconds = 0;
};

// The problems for PointSource::Survey.
std::vector<PointSource::Wanted> WantedFor(const Job& job);

Result<NetworkFigure> MeasureNetwork(Device& device, PointSource& points,
                                     const Job& job);

// "32 x 2 WINOGRAD_NONFUSED": the batch, how often, the algorithm.
std::string Describe(const MicroBatch& micro_batch);

// The fastest of the points on the whole batch within the limit, of all or of
// the first interface only.
std::optional<Nanoseconds> Undivided(const std::vector<MeasuredPoint>& points,
                                     BatchSize batch, Bytes limit,
                                     bool legacy_only);

nlohmann::ordered_json ToJson(const Job& job, const NetworkFigure& figure);

}  // namespace ucudnn::figures

#endif  // UCUDNN_TESTS_GPU_FIGURES_NETWORK_FIGURE_H_
