#ifndef UCUDNN_TESTS_GPU_FIGURES_NETWORK_FIGURE_H_
#define UCUDNN_TESTS_GPU_FIGURES_NETWORK_FIGURE_H_

// The gain of dividing the convolutions of one iteration of a network. All
// kernels share one arena: they run one after the other, so each may use all of
// it.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/network.h"
#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/training/device_model.h"
#include "base/units.h"
#include "device/device.h"
#include "tests/gpu/figures/points.h"

namespace ucudnn::figures {

struct Job {
  Network network;
  BatchSize batch;
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;
  std::vector<Bytes> limits;      // of the curve, increasing
  std::vector<Bytes> fit_limits;  // also measure batches that just fit these
  // The limits whose plans are also run; the first one's results are checked.
  std::vector<Bytes> run_limits;
  // The limits for which each kernel's part is reported.
  std::vector<Bytes> detail_limits;
  bool time_kernels = true;  // each by itself, of the plans that are run
  // How long the first of run_limits keeps the device busy, for the time under
  // load; 0: not at all.
  Nanoseconds load{0};
  DeviceModel device;  // predicts that time
};

// A kernel's part of a plan.
struct KernelFigure {
  Nanoseconds planned{0};
  // The whole batch at the rate of the fastest measured point per image: a
  // lower bound for every division into such points.
  Nanoseconds bound{0};
  Bytes workspace;
  std::vector<MicroBatch> micro_batches;
  // If the plan was run: this kernel alone, divided, back to back.
  std::optional<Nanoseconds> measured;
};

// Results for one limit. Sums over the kernels; absent if a kernel has none.
struct LimitFigure {
  Bytes limit;
  std::optional<Nanoseconds> planned;           // with all measured batches
  std::optional<Nanoseconds> powers_of_two;     // with powers of two only
  Bytes arena;                                  // of the plan
  std::optional<Nanoseconds> undivided;         // the fastest that fits
  std::optional<Nanoseconds> undivided_legacy;  // with the legacy API
  // The planned convolutions back to back, medians: between events, in host
  // time without waiting, and with everything enqueued before it starts.
  std::optional<Nanoseconds> measured;
  std::optional<Nanoseconds> enqueued;
  std::optional<Nanoseconds> device_alone;
  // After Job::load: as predicted, the median of the last tenth of the rounds,
  // and the device's state then.
  std::optional<Nanoseconds> planned_under_load;
  std::optional<Nanoseconds> under_load;
  std::string clocks_under_load;
  // The times behind that median, after the warm-up, which show whether the
  // device slowed down under load; and the device's state meanwhile.
  std::vector<Nanoseconds> rounds;
  std::string clocks;
  // The largest error of sampled elements of all kernels' results, in multiples
  // of the rounding error of the precision.
  std::optional<double> error;
  std::string note;                   // why something is absent
  std::vector<KernelFigure> kernels;  // if requested
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

// "32 x 2 WINOGRAD_NONFUSED": batch, count and algorithm.
std::string Describe(const MicroBatch& micro_batch);

// The fastest point for the whole batch within the limit, of both APIs or only
// of the legacy one.
std::optional<Nanoseconds> Undivided(const std::vector<MeasuredPoint>& points,
                                     BatchSize batch, Bytes limit,
                                     bool legacy_only);

nlohmann::ordered_json ToJson(const Job& job, const NetworkFigure& figure);

}  // namespace ucudnn::figures

#endif  // UCUDNN_TESTS_GPU_FIGURES_NETWORK_FIGURE_H_
