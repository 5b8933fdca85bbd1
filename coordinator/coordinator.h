#ifndef UCUDNN_COORDINATOR_COORDINATOR_H_
#define UCUDNN_COORDINATOR_COORDINATOR_H_

// What the coordinator does, whatever the wire: gRPC and REST decode a
// message, call one of these, and encode what it returns, so both give the
// same answers and errors. Thread-safe; what a call acknowledges is stored, but
// for heartbeats (heartbeats.h).

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/service/clock.h"
#include "base/units.h"
#include "coordinator/heartbeats.h"
#include "coordinator/planning/cross_checks.h"
#include "coordinator/planning/planner.h"
#include "coordinator/single_flight.h"
#include "coordinator/store/store.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

struct CoordinatorOptions {
  std::string version;
  std::string database;  // for people: sqlite or postgresql
  std::int64_t lease_ms = 30'000;
  std::int64_t heartbeat_ms = 2'000;
  // An agent not heard of for this long counts as gone.
  std::int64_t agent_timeout_ms = 10'000;
  std::int64_t poll_after_ms = 300;  // what an idle device waits
  // How often the ranks of jobs tell of their steps, and how long a job that
  // does not still counts as running.
  std::int64_t report_after_ms = 2'000;
  std::int64_t job_timeout_ms = 30'000;
  // By how much the median of a rank's steps may differ from its first ones'
  // before that counts as drift (drift.h).
  double drift_tolerance = 0.10;
  // Algorithms with at most this workspace, or a request's larger limit, are
  // measured, so that later requests with other limits need nothing new.
  Bytes measure_workspace = 1_GiB;
};

class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, Store& store, const Clock& clock)
      : options_(std::move(options)),
        store_(store),
        clock_(clock),
        heartbeats_(store, options_.lease_ms) {}

  // For agents; see proto/ucudnn/v1/agent.proto.
  Result<v1::RegisterResponse> Register(const v1::RegisterRequest& request);
  Result<v1::LeaseTasksResponse> LeaseTasks(
      const v1::LeaseTasksRequest& request);
  Result<v1::ReportTaskResponse> ReportTask(
      const v1::ReportTaskRequest& request);
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request);
  Result<v1::LeaveResponse> Leave(const v1::LeaveRequest& request);

  // For people and jobs; see proto/ucudnn/v1/coordinator.proto.
  Result<v1::ListAgentsResponse> ListAgents(const v1::ListRequest& request);
  Result<v1::Agent> GetAgent(const v1::GetRequest& request);
  Result<v1::ListDevicesResponse> ListDevices(const v1::ListRequest& request);
  Result<v1::Device> GetDevice(const v1::GetRequest& request);
  Result<v1::Network> PutNetwork(const v1::PutNetworkRequest& request);
  Result<v1::ListNetworksResponse> ListNetworks(const v1::ListRequest& request);
  Result<v1::Network> GetNetwork(const v1::GetRequest& request);
  Result<v1::ListProfilesResponse> ListProfiles(const v1::ListRequest& request);
  Result<v1::Profile> GetProfile(const v1::GetRequest& request);
  Result<v1::ProblemProfile> GetProblemProfile(
      const v1::GetProblemProfileRequest& request);
  Result<v1::ProfileSummary> PutProfile(const v1::Profile& request);
  Result<v1::MeasureProgress> Measure(const v1::MeasureRequest& request);
  Result<v1::Plan> CreatePlan(const v1::PlanRequest& request);
  Result<v1::ListPlansResponse> ListPlans(const v1::ListRequest& request);
  Result<v1::Plan> GetPlan(const v1::GetRequest& request);
  Result<v1::ListJobsResponse> ListJobs(const v1::ListRequest& request);
  Result<v1::Job> GetJob(const v1::GetRequest& request);
  Result<v1::RegisterJobResponse> RegisterJob(
      const v1::RegisterJobRequest& request);
  Result<v1::ReportStepsResponse> ReportSteps(
      const v1::ReportStepsRequest& request);
  Result<v1::AnswerRevisionResponse> AnswerRevision(
      const v1::AnswerRevisionRequest& request);
  Result<v1::FinishJobResponse> FinishJob(const v1::FinishJobRequest& request);
  Result<v1::JobRevision> ReplanJob(const v1::ReplanJobRequest& request);
  Result<v1::StatusResponse> GetStatus(const v1::StatusRequest& request);

  // Whether requests can be answered now.
  Status Ready();

  // To be called about twice as often as agents are heard of: writes their
  // heartbeats; those that fell silent become gone, such jobs lost.
  Status Maintain();

 private:
  // A request for a plan with all that it names looked up.
  struct Inputs {
    JobRequest request;
    Network network;
    std::int64_t network_revision = 0;
    std::vector<Need> needs;
  };
  // How far the tasks for these needs are.
  struct Queue {
    std::int64_t total = 0;
    TaskCounts counts;
    std::set<std::string> waiting_kinds;  // those with pending tasks
    bool ended() const { return counts.done + counts.failed == total; }
  };

  // What a job would be planned for anew, and `change`, for people, what is
  // other than in its plan; empty if nothing is.
  Result<v1::PlanRequest> Replanned(const v1::ReplanJobRequest& request,
                                    std::string* change);
  Result<Inputs> LookUp(const v1::PlanRequest& request);
  Result<KindProfiles> LoadProfiles(const Inputs& inputs);
  Result<Queue> Look(const Inputs& inputs);
  // As long as all needs are measured: adds the batches that ranks would get.
  // Afterwards the needs are what the plan is made from, or not all measured.
  Result<Queue> Refine(Inputs* inputs);
  // Returns how many tasks are new or open again.
  Result<std::int64_t> Enqueue(const Inputs& inputs);
  Result<v1::MeasureProgress> MeasureFor(Inputs* inputs,
                                         const v1::MeasureRequest& request);
  // What is stored of a task's problem.
  Status AddKnown(const TaskKey& key, v1::Task* task);
  // What measurements of a kind are true under: the drivers of its devices
  // online. Empty if none is, and then nothing is known to be stale.
  Result<std::vector<std::string>> DriversOf(const std::string& kind);
  // Devices of a kind beside each other; see
  // coordinator/planning/cross_checks.h.
  Result<std::vector<DeviceComparison>> CompareKind(const std::string& kind);
  // What the device is to measure for that, before anything else.
  Status LeaseCrossChecks(const DeviceRecord& device, int max_count,
                          v1::LeaseTasksResponse* response);
  // Which of the points other devices of the kind shall measure too, if any.
  Result<std::optional<CrossCheck>> CrossCheckOf(
      const TaskCompletion& completion);
  Status ReportCrossCheck(const v1::ReportTaskRequest& request);
  // Whose measurements a plan stands on that deviate from their kind.
  Result<std::vector<std::string>> DoubtsAbout(const Inputs& inputs);
  // The one kind that the devices online have.
  Result<std::string> OnlyKind();

  const CoordinatorOptions options_;
  Store& store_;
  const Clock& clock_;
  Heartbeats heartbeats_;
  SingleFlight planning_;  // by request
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_COORDINATOR_H_
