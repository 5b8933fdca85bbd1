#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_PLANNER_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_PLANNER_H_

// Plans one convolution at a time, in the process that runs it, for one device
// kind. It looks for a plan in this order:
//   1. the plan file (UCUDNN_PLAN_FILE), if it divides the same problem and
//      batch within the limit;
//   2. measurements: of this process, of UCUDNN_CACHE_DIR, and from `ask` (a
//      coordinator). What is still missing is measured here. Asking and
//      measuring happen once for all processes of the machine.
// The policy `adaptive` measures what plans under the limit need, the others
// each algorithm at each size. Measurements of algorithms that are too
// inaccurate (accuracy.h) are ignored.
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
  // Returns a device of the planner's kind to measure on; called only if
  // needed.
  using Bench = std::function<Result<Device*>()>;
  // Returns others' measurements of a problem on the planner's kind; those that
  // the bench lists too are used. If it fails, everything is measured.
  using Ask = std::function<Result<KnownElsewhere>(const ConvProblem&)>;

  struct Options {
    DropInSettings settings;
    std::string kind;  // ToString of the DeviceKind
    Ask ask;           // may be empty
    // How long to wait for a process that measures the same problem.
    std::chrono::milliseconds patience = std::chrono::seconds(60);
  };

  // How the program's divisions are enqueued: each as a graph, which costs the
  // host next to nothing however many micro-batches it has, or micro-batch by
  // micro-batch. Then a division must not keep the host busy longer than the
  // undivided batch keeps the device (solver/micro_batch/host_time.h).
  enum class Enqueueing { kReplayed, kDirect };

  explicit LocalPlanner(Options options);

  // The fastest plan for `batch` images within `limit`. Errors of SolveWr; of
  // the device, if it has to measure; kDeadlineExceeded if another process
  // measures for too long.
  Result<KernelPlan> Plan(const ConvProblem& problem, BatchSize batch,
                          Bytes limit, const Bench& bench,
                          Enqueueing enqueueing = Enqueueing::kDirect);

  // Whether `plan`, returned by Plan for `batch` images, is faster than the
  // whole batch run by `algorithm` by more than the noise, in device time and,
  // if enqueued directly, in host time (solver/micro_batch/wr.h, Noise).
  // Measures the algorithm if necessary. Always true for a plan from the plan
  // file, which the user chose, and if `algorithm` is not deterministic but has
  // to be.
  Result<bool> Beats(const KernelPlan& plan, BatchSize batch,
                     const Algorithm& algorithm, const Bench& bench,
                     Enqueueing enqueueing = Enqueueing::kDirect);

  // One kernel of many that share a total workspace.
  struct Kernel {
    ConvProblem problem;
    BatchSize batch;
    friend bool operator==(const Kernel&, const Kernel&) = default;
  };
  // WD: the plans of least total time whose workspaces are disjoint segments of
  // `total` bytes, each at an offset that is a multiple of 256. Errors as Plan;
  // kFailedPrecondition names the smallest total that would do.
  Result<std::vector<KernelPlan>> Divide(
      std::span<const Kernel> kernels, Bytes total, const Bench& bench,
      Enqueueing enqueueing = Enqueueing::kDirect);

  // Why the plan file is not used; empty if it is used or there is none.
  const std::string& plan_file_problem() const { return plan_file_problem_; }
  const DropInSettings& settings() const { return options_.settings; }

 private:
  using FileKey = std::pair<ConvProblem, BatchSize>;

  void ReadPlanFile();
  std::optional<KernelPlan> FromPlanFile(const ConvProblem& problem,
                                         BatchSize batch, Bytes limit,
                                         const Bench& bench);
  // All usable points for the sizes that `batch` may be divided into, measured
  // as far as plans within `limit` need them, or within any lower limit too if
  // `each_below`.
  Result<std::vector<MeasuredPoint>> Points(const ConvProblem& problem,
                                            BatchSize batch, Bytes limit,
                                            bool each_below,
                                            const Bench& bench);
  // The time of the whole batch by `algorithm`, even if plans may not use it.
  Result<MeasuredPoint> WholePoint(const ConvProblem& problem, BatchSize batch,
                                   const Algorithm& algorithm,
                                   const Bench& bench);
  // Gets missing measurements from others, if they have them.
  Status AskFor(const ConvProblem& problem, const AdaptiveQuery& need,
                const Bench& bench, ProblemMeasurements* known);
  Status Measure(const ConvProblem& problem, const AdaptiveQuery& need,
                 const Bench& bench, ProblemMeasurements* known);
  // Measures by the adaptive policy, as agents do (campaign/campaign.h).
  Status Explore(Device& device, const ConvProblem& problem,
                 const AdaptiveQuery& need, const MeasureOptions& options,
                 const Bench& bench, ProblemMeasurements* known);
  // Measures the missing errors of `algorithms`.
  Status MeasureMissingErrors(const ConvProblem& problem, BatchSize batch,
                              std::span<const Algorithm> algorithms,
                              const Bench& bench, ProblemMeasurements* known);
  void Note(const std::string& text) const;  // printed if verbose

  bool IsAdaptive() const {
    return options_.settings.policy == BatchPolicy::kAdaptive;
  }
  bool Admits(const ConvProblem& problem, const ProblemMeasurements& known,
              const Algorithm& algorithm) const;
  std::vector<MeasuredPoint> AdmittedPoints(const ConvProblem& problem,
                                            const ProblemMeasurements& known,
                                            BatchSize batch) const;
  bool IsEnough(const ProblemMeasurements& known,
                const AdaptiveQuery& need) const;
  std::vector<BatchSize> Missing(const ProblemMeasurements& known,
                                 const AdaptiveQuery& need) const;
  bool IsComplete(const ProblemMeasurements& known, BatchSize size,
                  Bytes limit) const;
  // The workspace to measure up to for plans within `limit`: at least the
  // settings', so that later plans need nothing new.
  Bytes Reach(Bytes limit) const;

  const Options options_;
  std::string plan_file_problem_;
  std::map<FileKey, std::vector<KernelPlan>> plan_file_;
  std::mutex mutex_;
  MeasurementFiles files_;
  std::map<ConvProblem, ProblemMeasurements> known_;
};

// Whether the algorithm returns the same bits for the same input every time,
// according to its library's documentation.
bool IsDeterministic(ConvOp op, const Algorithm& algorithm);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_PLANNER_H_
