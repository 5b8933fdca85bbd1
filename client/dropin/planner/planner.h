#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_PLANNER_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_PLANNER_H_

// Plans one convolution at a time, in the process that runs it, for one device
// kind. It looks for a plan in this order:
//   1. the plan file (UCUDNN_PLAN_FILE), if it divides the same problem and
//      batch within the limit;
//   2. measurements (point_sources.h).
//
// Thread safe; one caller at a time measures.

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/plan/plan.h"
#include "base/result.h"
#include "base/units.h"
#include "client/config/dropin_settings.h"
#include "client/dropin/planner/point_sources.h"

namespace ucudnn {

class LocalSolver {
 public:
  using Bench = PointSources::Bench;
  using Options = LocalOptions;

  // How the program's divisions are enqueued: each as a graph, which costs the
  // host next to nothing however many micro-batches it has, or micro-batch by
  // micro-batch. Then a division must not keep the host busy longer than the
  // undivided batch keeps the device (solver/micro_batch/host_time.h).
  enum class Enqueueing { kReplayed, kDirect };

  explicit LocalSolver(Options options);

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
  const DropInSettings& settings() const { return points_.settings(); }

 private:
  using FileKey = std::pair<ConvProblem, BatchSize>;

  void ReadPlanFile();
  std::optional<KernelPlan> FromPlanFile(const ConvProblem& problem,
                                         BatchSize batch, Bytes limit,
                                         const Bench& bench);
  std::string plan_file_problem_;
  std::map<FileKey, std::vector<KernelPlan>> plan_file_;
  std::mutex mutex_;
  PointSources points_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_PLANNER_H_
