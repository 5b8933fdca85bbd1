#ifndef UCUDNN_TESTS_GPU_FIGURES_POINTS_H_
#define UCUDNN_TESTS_GPU_FIGURES_POINTS_H_

// Measures a problem's algorithms on a batch and on powers of two below it, in
// as little time as a figure allows. Each algorithm runs once, and is measured
// like device/measure/measure.h only if it can matter (screening.h). An
// algorithm whose runs on smaller batches show that it is hopeless does not run
// at all. Then, for a few limits, the algorithms that may be faster there are
// measured on the largest multiples of 8 images that fit and on even parts of
// the batch.
//
// The smallest power of two is the one whose images have about 3 MiB, at most
// 8.

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"
#include "device/measure/measure.h"
#include "tests/gpu/figures/screening.h"
#include "tests/gpu/figures/survey.h"

namespace ucudnn::figures {

struct PointOptions {
  std::int64_t step =
      2;  // between the batches: 4 takes every other power of two
  Bytes max_workspace = 1_GiB;  // skips algorithms that need more
  // By single runs: skip algorithms that are slower by more than this factor
  // than another with no more workspace...
  double near = 1.05;
  // ... or slower than this many such others...
  int most_faster = 2;
  // ... and do not even run those predicted to be slower by more than this.
  double hopeless = 2;
};

class ScreenedDevice;

class PointSource {
 public:
  // `device` and `surveyors` must outlive the source.
  PointSource(Device& device, Surveyors& surveyors,
              const PointOptions& options);
  ~PointSource();

  struct Wanted {
    ConvProblem problem;
    BatchSize batch;
  };
  // Finds out on several threads what PointsOf will need for these problems,
  // and keeps everything prepared until then.
  void Survey(const std::vector<Wanted>& wanted);

  // Measures powers of two, the batch itself, and batches that just fit into
  // `limits`. A problem that was measured with this batch before is not
  // measured again.
  Result<const std::vector<MeasuredPoint>*> PointsOf(
      const ConvProblem& problem, BatchSize batch,
      const std::vector<Bytes>& limits);

  // What was skipped or failed, and the time spent; for the report.
  struct Effort {
    int tasks = 0;
    int offered = 0;
    int run_once = 0;
    int measured = 0;
    int failed = 0;
    Nanoseconds surveying{0};
    Nanoseconds running{0};
    Nanoseconds measuring{0};
    Nanoseconds fitting{0};
  };
  const Effort& effort() const { return effort_; }
  // The effort since the last call.
  Effort TakeEffort() { return std::exchange(effort_, Effort()); }

 private:
  using Key = std::pair<ConvProblem, BatchSize>;

  Status MeasureBatch(const ConvProblem& problem, BatchSize batch,
                      const std::vector<Offer>& offers,
                      std::map<Algorithm, Trend>* trends,
                      std::vector<SizedRun>* sized,
                      std::vector<MeasuredPoint>* points);
  Status MeasureFitting(const ConvProblem& problem, BatchSize batch,
                        Bytes limit, const std::vector<SizedRun>& runs,
                        std::vector<MeasuredPoint>* points);
  // Whether the algorithm runs that batch within the limit; then it is among
  // the points or has failed.
  Result<bool> MeasureIfItFits(const ConvProblem& problem, BatchSize batch,
                               const Algorithm& algorithm, Bytes limit,
                               std::vector<MeasuredPoint>* points);
  Status Measure(const ConvProblem& problem, BatchSize batch,
                 std::vector<Offer> offers, std::vector<MeasuredPoint>* points);
  Result<Nanoseconds> RunOnce(const Offer& offer);
  Status Reserve(const ConvProblem& problem, BatchSize batch);

  Device& device_;
  Surveyors& surveyors_;
  const PointOptions options_;
  std::unique_ptr<ScreenedDevice> screened_;
  MeasureBench bench_;  // on screened_
  std::map<Key, Offers> surveyed_;
  std::map<Key, std::vector<MeasuredPoint>> known_;
  DeviceBuffer a_;
  DeviceBuffer b_;
  DeviceBuffer out_;
  DeviceBuffer workspace_;
  Effort effort_;
};

}  // namespace ucudnn::figures

#endif  // UCUDNN_TESTS_GPU_FIGURES_POINTS_H_
