#ifndef UCUDNN_CLIENT_CLI_EXPLANATION_H_
#define UCUDNN_CLIENT_CLI_EXPLANATION_H_

// Why a plan is as it is, by measurements: what binds each kernel, what comes
// next, and what more workspace or another GPU would bring. Pure functions.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/plan/concurrency.h"
#include "base/plan/job_plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn::ctl {

// Another division of a kernel's mini-batch than the planned one.
struct Alternative {
  Bytes limit;  // the least under which it would be planned
  Nanoseconds time{0};
  std::string division;
};

// A kernel's bytes of a total that is divided.
struct KernelSegment {
  Bytes offset;
  Bytes size;
  std::vector<std::string> beside;  // kernels that may run at the same time
};

// Algorithms that the request's max_error leaves out.
struct LeftOut {
  std::map<Algorithm, double> errors;
  // The best under the limit with them, if that is faster.
  std::optional<Alternative> with = {};
};

struct ExplainedKernel {
  std::string layer;
  ConvOp op = ConvOp::kForward;
  std::string division;
  Nanoseconds time{0};
  // The next one that a larger limit allows: if there is one, the limit binds.
  std::optional<Alternative> more = {};
  std::optional<Alternative> fewer = {};  // the best one with less workspace
  // The best division under the limit that does without one of the planned
  // kinds of micro-batches.
  std::optional<Alternative> runner_up = {};
  std::optional<Alternative> doubled = {};  // under twice the limit, if faster
  // Faster by its median, but by less than its repeats scatter.
  std::optional<Alternative> scattered = {};
  // If it may run beside others: then its size is the limit of the above.
  std::optional<KernelSegment> segment = {};
  std::optional<LeftOut> inexact = {};
};

// `points` are what is measured of the kernel, of which a rank runs `batch`
// images within `limit`. Errors of SolvePareto.
Result<ExplainedKernel> ExplainKernel(std::vector<MeasuredPoint> points,
                                      BatchSize batch,
                                      const JobRequest& request, Bytes limit,
                                      const KernelPlan& kernel);

// Of each kernel of a valid plan: its segment, if it may run beside others.
std::vector<std::optional<KernelSegment>> SegmentsOf(const WorkspacePlan& plan);

// What a job would take with one more GPU of a kind.
struct OneMore {
  std::string kind;
  Nanoseconds time{0};
  std::vector<BatchSize> shares;  // of its ranks and, last, of the new one
};

// For each of the job's kinds, in their order, as far as the measurements
// allow: a kind is left out without a plan for it. `kernels` are those of an
// iteration on each kind; `concurrency` is theirs if the request is concurrent.
std::vector<OneMore> WithOneMoreGpu(
    const JobRequest& request, const std::map<std::string, Profile>& kernels,
    const std::optional<Concurrency>& concurrency = {});

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_EXPLANATION_H_
