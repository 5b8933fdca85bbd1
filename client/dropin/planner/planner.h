#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_PLANNER_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_PLANNER_H_

// Plans one convolution at a time inside the process that runs it, for one
// kind of device. A plan is looked for in this order:
//   1. the plan file (UCUDNN_PLAN_FILE), if it divides the same problem and
//      batch within the limit;
//   2. measurements: those of this process, those kept under UCUDNN_CACHE_DIR,
//      those that `ask` has (a coordinator), and what is then still missing is
//      measured here; the last two once for all processes of the machine.
// Under the policy `adaptive` that is what plans under the limit need; under
// the others, each algorithm at each size. Measurements of algorithms that err
// too much (local/accuracy.h) do not count.
//
// Thread safe; one caller at a time measures.

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "client/config/dropin_settings.h"
#include "client/dropin/cache/measurements.h"
#include "client/dropin/wire/profile_wire.h"
#include "device/device.h"
#include "device/measure/measure.h"
#include "solver/micro_batch/pareto.h"

namespace ucudnn {

class LocalPlanner {
 public:
  // A device of the planner's kind, to measure on; called only if need be.
  using Bench = std::function<Result<Device*>()>;
  // What somebody else has measured of a problem on the planner's kind. Of it
  // counts what the bench lists as well. Without an answer all is measured.
  using Ask = std::function<Result<KnownElsewhere>(const ConvProblem&)>;

  struct Options {
    DropInSettings settings;
    std::string kind;  // ToString of the DeviceKind
    Ask ask;           // may be empty
    // For how long a process waits for one that measures the same problem.
    std::chrono::milliseconds patience = std::chrono::seconds(60);
  };

  explicit LocalPlanner(Options options);

  // The plan of least time for `batch` images within `limit`. Errors of
  // SolveWr; of the device, if it has to measure; kDeadlineExceeded if another
  // process measures for too long.
  Result<KernelPlan> Plan(const ConvProblem& problem, BatchSize batch,
                          Bytes limit, const Bench& bench);

  // Whether `plan`, one of Plan's for `batch` images, beats the whole batch run
  // by `algorithm` beyond doubt, be it the host or the device that a program
  // waits for (solver/micro_batch/wr.h, Noise; solver/micro_batch/host_time.h).
  // Measures the algorithm if it was not. So does a plan of the plan file,
  // which somebody chose, and any if the algorithm is not deterministic but has
  // to be.
  Result<bool> Beats(const KernelPlan& plan, BatchSize batch,
                     const Algorithm& algorithm, const Bench& bench);

  // One kernel of many that share a total workspace.
  struct Kernel {
    ConvProblem problem;
    BatchSize batch;
    friend bool operator==(const Kernel&, const Kernel&) = default;
  };
  // WD: the plans of least total time whose workspaces are disjoint segments
  // of `total` bytes, each at its offset, a multiple of 256. Errors as Plan
  // has them; kFailedPrecondition names the smallest total that would do.
  Result<std::vector<KernelPlan>> Divide(std::span<const Kernel> kernels,
                                         Bytes total, const Bench& bench);

  // Why the plan file is not used; empty if it is, or there is none.
  const std::string& plan_file_problem() const { return plan_file_problem_; }
  const DropInSettings& settings() const { return options_.settings; }

 private:
  using FileKey = std::pair<ConvProblem, BatchSize>;

  void ReadPlanFile();
  std::optional<KernelPlan> FromPlanFile(const ConvProblem& problem,
                                         BatchSize batch, Bytes limit,
                                         const Bench& bench);
  // All that counts of the sizes that `batch` may be divided into, measured as
  // far as plans within `limit` need it.
  Result<std::vector<MeasuredPoint>> Points(const ConvProblem& problem,
                                            BatchSize batch, Bytes limit,
                                            const Bench& bench);
  // What the whole batch takes by an algorithm, whether plans may have it or
  // not.
  Result<MeasuredPoint> WholePoint(const ConvProblem& problem, BatchSize batch,
                                   const Algorithm& algorithm,
                                   const Bench& bench);
  // Takes from others what is missing, if they have it.
  Status AskFor(const ConvProblem& problem, const AdaptiveLook& need,
                const Bench& bench, ProblemMeasurements* known);
  Status Measure(const ConvProblem& problem, const AdaptiveLook& need,
                 const Bench& bench, ProblemMeasurements* known);
  // By the adaptive policy, as agents do (campaign/campaign.h).
  Status Explore(Device& device, const ConvProblem& problem,
                 const AdaptiveLook& need, const MeasureOptions& options,
                 const Bench& bench, ProblemMeasurements* known);
  // Learns the errors of those algorithms that are not known.
  Status Judge(const ConvProblem& problem, BatchSize batch,
               std::span<const Algorithm> algorithms, const Bench& bench,
               ProblemMeasurements* known);
  void Note(const std::string& text) const;  // for people who want to know

  bool IsAdaptive() const {
    return options_.settings.policy == BatchPolicy::kAdaptive;
  }
  bool Admits(const ConvProblem& problem, const ProblemMeasurements& known,
              const Algorithm& algorithm) const;
  std::vector<MeasuredPoint> AdmittedPoints(const ConvProblem& problem,
                                            const ProblemMeasurements& known,
                                            BatchSize batch) const;
  bool IsEnough(const ProblemMeasurements& known,
                const AdaptiveLook& need) const;
  std::vector<BatchSize> Missing(const ProblemMeasurements& known,
                                 const AdaptiveLook& need) const;
  bool IsComplete(const ProblemMeasurements& known, BatchSize size,
                  Bytes limit) const;
  // Up to which workspace is measured for plans within `limit`: for those
  // within the settings' too, so that later ones need nothing new.
  Bytes Reach(Bytes limit) const;

  const Options options_;
  std::string plan_file_problem_;
  std::map<FileKey, std::vector<KernelPlan>> plan_file_;
  std::mutex mutex_;
  MeasurementFiles files_;
  std::map<ConvProblem, ProblemMeasurements> known_;
};

// Whether the algorithm gives the same bits for the same input each time, as
// far as its library says.
bool IsDeterministic(ConvOp op, const Algorithm& algorithm);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_PLANNER_H_
