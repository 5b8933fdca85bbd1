#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_POINT_SOURCES_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_POINT_SOURCES_H_

// Measured points of convolutions on one device kind: of this process, of
// UCUDNN_CACHE_DIR, and from `ask` (a coordinator). What is still missing is
// measured here. Asking and measuring happen once for all processes of the
// machine. The policy `adaptive` measures what plans under the limit need, the
// others each algorithm at each size. Points of algorithms that are too
// inexact (base/accuracy.h) are left out. One caller at a time.

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "client/config/dropin_settings.h"
#include "client/dropin/ask/problem_profile.h"
#include "client/dropin/cache/measurements.h"
#include "device/accuracy.h"
#include "device/device.h"
#include "device/measure/measure.h"

namespace ucudnn {

struct LocalOptions {
  DropInSettings settings;
  std::string kind;  // ToString of the DeviceKind
  // Returns others' measurements of a problem on this kind; those that the
  // bench lists too are used. If it fails, everything is measured.
  using Ask = std::function<Result<KnownElsewhere>(const ConvProblem&)>;
  Ask ask;  // may be empty
  // How long to wait for a process that measures the same problem.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
};

class PointSources {
 public:
  // Returns a device of this kind to measure on; called only if needed.
  using Bench = std::function<Result<Device*>()>;

  explicit PointSources(LocalOptions options);

  // All usable points for the sizes that the batch may be divided into,
  // measured as far as plans within the limit need them. Errors of the device,
  // if it has to measure; kDeadlineExceeded if another process measures for too
  // long.
  Result<std::vector<MeasuredPoint>> Below(const ConvProblem& problem,
                                           const AdaptiveQuery& need,
                                           const Bench& bench);
  // The point of `batch` images by `algorithm`, even if plans may not use it.
  Result<MeasuredPoint> Point(const ConvProblem& problem, BatchSize batch,
                              const Algorithm& algorithm, const Bench& bench);
  // Null if this process does not know it.
  const MeasuredPoint* Find(const ConvProblem& problem, BatchSize batch,
                            const Algorithm& algorithm) const;
  // Whether plans may use the algorithm. Measures its error if necessary; false
  // if that fails.
  bool Admits(const ConvProblem& problem, BatchSize batch,
              const Algorithm& algorithm, const Bench& bench);

  const DropInSettings& settings() const { return options_.settings; }
  const std::string& kind() const { return options_.kind; }

 private:
  // Gets missing measurements from others, if they have them.
  Status AskFor(const ConvProblem& problem, const AdaptiveQuery& need,
                const Bench& bench, ProblemMeasurements* known);
  Status Measure(const ConvProblem& problem, const AdaptiveQuery& need,
                 const Bench& bench, ProblemMeasurements* known);
  // Measures by the adaptive policy, as agents do (device/measure/campaign.h).
  Status Explore(Device& device, const ConvProblem& problem,
                 const AdaptiveQuery& need, const MeasureOptions& options,
                 ProblemMeasurements* known);
  // Measures the errors that points lack.
  Status AddErrors(const ConvProblem& problem, const Bench& bench,
                   ProblemMeasurements* known);
  void Note(const std::string& text) const;  // printed if verbose

  bool IsAdaptive() const {
    return options_.settings.policy == BatchPolicy::kAdaptive;
  }
  std::vector<MeasuredPoint> AdmittedPoints(const ConvProblem& problem,
                                            const ProblemMeasurements& known,
                                            BatchSize batch) const;
  bool IsEnough(const ProblemMeasurements& known,
                const AdaptiveQuery& need) const;
  std::vector<BatchSize> Missing(const ProblemMeasurements& known,
                                 const AdaptiveQuery& need) const;
  bool IsComplete(const ProblemMeasurements& known, BatchSize size,
                  Bytes limit) const;
  // The workspace to measure up to for plans within `limit`: at least
  // DropInSettings::MostWorkspace, so that later plans need nothing new.
  Bytes Reach(Bytes limit) const;

  const LocalOptions options_;
  MeasurementFiles files_;
  std::map<ConvProblem, ProblemMeasurements> known_;
  AlgorithmErrors errors_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_POINT_SOURCES_H_
