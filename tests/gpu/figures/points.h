#ifndef UCUDNN_TESTS_GPU_FIGURES_POINTS_H_
#define UCUDNN_TESTS_GPU_FIGURES_POINTS_H_

// Measures a problem's algorithms on powers of two up to a batch, in as little
// time as a figure allows: each algorithm is run once, and measured as
// device/measure.h does it only where it can matter, which is when no rival
// with as little workspace was much faster. An algorithm that was hopeless on
// half the batch is not even run. The first interface's algorithms have only
// each other as rivals, since figures compare with them alone. Then, for a few
// limits, the largest multiples of 8 images that fit, of the algorithms that
// such a batch may make faster.
//
// The least power of two is the one whose images have some 3 MiB, at most 8.

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"
#include "device/measure.h"

namespace ucudnn::figures {

struct PointOptions {
  Bytes max_workspace = 1_GiB;  // more is left out
  // Of the run: what is slower than something as small by more is left out...
  double near = 1.06;
  double hopeless = 2;  // ... and by more than this, also on twice the batch.
};

class ScreenedDevice;

class PointSource {
 public:
  // `device` must outlive the source.
  PointSource(Device& device, const PointOptions& options);
  ~PointSource();

  // Powers of two, the batch itself, and what just fits into `limits`. A
  // problem that was asked for with this batch before is not measured again.
  Result<const std::vector<MeasuredPoint>*> PointsOf(
      const ConvProblem& problem, BatchSize batch,
      const std::vector<Bytes>& limits);

  // What was left out or failed, and the time spent; for the report.
  struct Effort {
    int tasks = 0;
    int listed = 0;
    int run_once = 0;
    int measured = 0;
    int failed = 0;
    Nanoseconds listing{0};
    Nanoseconds running{0};
    Nanoseconds measuring{0};
  };
  const Effort& effort() const { return effort_; }

 private:
  // How long single runs took, an image.
  using Earlier = std::map<Algorithm, double>;

  Status MeasureBatch(const ConvProblem& problem, BatchSize batch,
                      Earlier* earlier, std::vector<MeasuredPoint>* points);
  Status MeasureFitting(const ConvProblem& problem, Bytes limit,
                        std::vector<MeasuredPoint>* points);
  Status Measure(const ConvProblem& problem, BatchSize batch,
                 std::vector<Candidate> candidates,
                 std::vector<MeasuredPoint>* points);
  Result<Nanoseconds> RunOnce(const ConvProblem& problem, BatchSize batch,
                              const Candidate& candidate);
  Status Reserve(const ConvProblem& problem, BatchSize batch);

  Device& device_;
  const PointOptions options_;
  std::unique_ptr<ScreenedDevice> screened_;
  MeasureBench bench_;  // on screened_
  std::map<std::pair<ConvProblem, BatchSize>, std::vector<MeasuredPoint>>
      known_;
  DeviceBuffer a_;
  DeviceBuffer b_;
  DeviceBuffer out_;
  DeviceBuffer workspace_;
  Effort effort_;
};

}  // namespace ucudnn::figures

#endif  // UCUDNN_TESTS_GPU_FIGURES_POINTS_H_
