#ifndef UCUDNN_CLIENT_SESSION_PLAN_SEARCH_H_
#define UCUDNN_CLIENT_SESSION_PLAN_SEARCH_H_

// Where rank 0 looks for a plan: the plan file, the coordinator, the cache, in
// this order. Knows nothing of MPI.
//
//   PlanSearch search(config);            // config.request has all kinds
//   for (;;) {
//     UCUDNN_ASSIGN_OR_RETURN(const auto found, search.Next());
//     if (!found) break;  // undivided, because of search.reason()
//     if (every rank can run found->plan) return search.Accept(*found);
//     search.Reject("rank 1: ...");
//   }

#include <optional>
#include <string>
#include <vector>

#include "base/plan/job_plan.h"
#include "base/result.h"
#include "client/session/config.h"
#include "client/session/session.h"

namespace ucudnn {

class PlanSearch {
 public:
  struct Found {
    PlanSource source = PlanSource::kUndivided;
    JobPlan plan;
    std::string where;  // "plan 7 of coordinator a:7460", for people
  };

  explicit PlanSearch(SessionConfig config) : config_(std::move(config)) {}

  // The next plan that fits the job (CheckPlan), or nothing. Takes up to
  // ask_within + await_measurements when the coordinator is asked. An error if
  // the job names what does not exist, which no outage explains:
  // kInvalidArgument if its plan file cannot be read, kNotFound if a
  // coordinator does not know its network, which has no layers to register.
  Result<std::optional<Found>> Next();
  // The plan that Next gave last is of no use, because of `why`.
  void Reject(std::string why);
  // The plan is good: keeps it in the cache if it comes from the coordinator.
  // Errors of ReplaceFile (base/files/file.h).
  Status Accept(const Found& found);

  // Why what was passed over was, in order; one line, empty if nothing was.
  std::string reason() const;
  // Where a plan for this request is kept; empty without a cache. Other
  // versions of the solver keep theirs elsewhere.
  std::string cache_path() const;

 private:
  // Nothing: it is passed over, or not named.
  Result<std::optional<Found>> FromFile();
  Result<std::optional<Found>> FromCoordinator();
  Result<std::optional<Found>> FromCache();
  Result<Found> AskCoordinator() const;
  // The plan if it fits; otherwise it is passed over.
  std::optional<Found> IfFitting(Found found, bool with_limits);

  SessionConfig config_;
  int step_ = 0;
  std::string where_;  // of the last plan
  std::vector<std::string> passed_over_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_PLAN_SEARCH_H_
