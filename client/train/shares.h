#ifndef UCUDNN_CLIENT_TRAIN_SHARES_H_
#define UCUDNN_CLIENT_TRAIN_SHARES_H_

// Which images of each mini-batch a rank trains, and within which memory plan,
// without a coordinator:
//
//   first rank of each kind of device:  measures all tasks at a few batches
//   all ranks:                          exchange the measurements
//   rank 0:                             solves shares and plans at once
//                                       (solver/joint_memory.h) for all shares,
//                                       those between on the line, and names
//                                       what is to be measured: the solution's
//                                       shares and their neighbours
//   again, until these are measured; then once more for finer shares between
//   those of the solution and their neighbours; then rank 0 solves for what is
//   measured alone, and tells the shares and their plans
//   ranks whose plans copy:             try them at once, for the rates that
//                                       their links reach; if one is another,
//                                       rank 0 solves again
//
// One rank alone, or ranks with given shares, plan by themselves.

#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/plan/job_plan.h"
#include "base/result.h"
#include "base/training/memory_plan.h"
#include "client/ranks/ranks.h"
#include "client/training/memory_executor.h"
#include "client/training/prepared_training.h"
#include "device/device.h"
#include "device/operators/operators.h"
#include "solver/joint_memory.h"

namespace ucudnn::train {

// Ranks on one device, or on slices of it, would slow each other down, so they
// do some work one after the other.
struct Turns {
  int mine = 0;
  int all = 1;

  // Collective: finds which ranks share a device.
  static Result<Turns> Find(Ranks& ranks, const Device& device,
                            Ranks::Deadline deadline);
};

template <class T>
Status StatusOf(const Result<T>& result) {
  if (result) return {};
  return tl::unexpected<Error>(result.error());
}

// What a rank trains.
struct Part {
  BatchSize first;
  BatchSize batch;  // 0: the rank is left out
  std::optional<MemoryPlan> plan;
  std::string why;  // for people; may be empty

  bool copies() const { return plan && plan->offloaded > Bytes(); }
};

struct ShareRequest {
  TrainingInput input;
  TrainingRequest plan;           // its budget is that of `budgets`
  std::vector<Bytes> budgets;     // of each rank
  std::vector<BatchSize> shares;  // of each rank, if they are given
  // The file of measurements of earlier starts, if any: those that it has are
  // not made again, so that the same plan comes out; others are added to it.
  std::string measurements;
  // Other policies are to plan from what a rank alone measures, so it measures
  // more than an undivided plan needs.
  bool for_all_policies = false;
};

class SharePlanner {
 public:
  // The arguments must outlive it. `prepared` is the network at the whole
  // mini-batch.
  SharePlanner(Ranks& ranks, Device& device, Operators& operators, Turns turns,
               const ShareRequest& request, PreparedTraining* prepared)
      : ranks_(ranks),
        device_(device),
        operators_(operators),
        turns_(turns),
        request_(request),
        prepared_(*prepared) {}

  // Collective: this rank's part. `prepared` is then at its batch, with the
  // measurements of its kind of device. All ranks return the same error, those
  // of MeasureTraining, PlanTraining and SolveJointMemory.
  Result<Part> Plan(const std::stop_token& stop);

  // How it was planned, for people.
  const std::string& reason() const { return reason_; }

 private:
  Status Together(const Status& mine);
  template <class T>
  Result<T> Together(Result<T> mine) {
    UCUDNN_RETURN_IF_ERROR(Together(StatusOf(mine)));
    return mine;
  }
  // Sets the measurements of this rank's kind, for these batches and all that
  // are known.
  Status Measure(const std::vector<BatchSize>& batches,
                 const std::stop_token& stop);
  Status MeasureMine(std::vector<BatchSize> batches,
                     const std::stop_token& stop);
  Status ReadKnown();
  Status WriteKnown();
  Result<Part> PlanAlone(const std::stop_token& stop);
  // Collective: tries the plans of all ranks at once, and sets the rates that
  // their copies reached beside each other. Whether one is another.
  Result<bool> MeasureLinks(const Part& part, const std::stop_token& stop);
  // The same of this rank, as JSON: {"changed":...,"link":...}; empty if its
  // plan copies nothing.
  Result<std::string> MeasureMyLink(const Part& part,
                                    const std::stop_token& stop);
  Result<Part> PlanTogether(const std::stop_token& stop);
  // Of rank 0, as JSON: {"measure":[[batch,…],…]} by rank or, if nothing is
  // missing, which it never is after finer shares, the shares with their plans.
  Result<std::string> Solve(const std::stop_token& stop);
  // Rank 0's answer, on all ranks.
  Result<nlohmann::ordered_json> Answer(const std::stop_token& stop);
  Result<JointMemoryProblem> Problem() const;
  // Under which a file of measurements notes that shares were searched for.
  std::string SearchKey() const;
  Result<Part> PartOf(const nlohmann::ordered_json& json);

  Ranks& ranks_;
  Device& device_;
  Operators& operators_;
  const Turns turns_;
  const ShareRequest& request_;
  PreparedTraining& prepared_;

  std::vector<std::string> keys_;  // by rank: equal where measurements are
  // Measurements as JSON, by key: all, and those of the file.
  std::map<std::string, std::string> known_;
  std::map<std::string, std::string> read_;
  // Of rank 0: at kMostRounds it asks for finer shares, and then for no more.
  int rounds_ = 0;
  std::string reason_;
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_SHARES_H_
