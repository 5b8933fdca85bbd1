#ifndef UCUDNN_COORDINATOR_STORE_SQL_STORE_H_
#define UCUDNN_COORDINATOR_STORE_SQL_STORE_H_

// The store in SQL, on any database. Each sql_*.cc defines the methods of one
// subject.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "coordinator/store/group_commit.h"
#include "coordinator/store/sql_database.h"
#include "coordinator/store/store.h"

namespace ucudnn {

// What an agent measured of its task: all, or some of it.
struct TaskReport {
  const TaskCompletion& completion;
  bool partial;
};

// Tasks::CompleteTask and AddToTask for the first of the reports, as many as
// suit one transaction. One that is refused does not affect the others.
std::vector<Result<CompletionResult>> StoreReports(
    SqlDatabase& database, std::span<const TaskReport* const> reports);

class SqlStore final : public Store {
 public:
  // Of a prepared database (schema.h).
  explicit SqlStore(std::unique_ptr<SqlDatabase> database)
      : database_(std::move(database)),
        reports_(
            [this](std::span<const TaskReport* const> reports) {
              return StoreReports(*database_, reports);
            },
            database_->dialect().writers) {}

  Status Ping() override;
  Status CheckWritable() override;
  Result<std::string> Epoch() override;

  // Agents
  Status RegisterAgents(
      std::span<const AgentRegistration> registrations) override;
  Result<std::vector<std::string>> Heartbeat(
      std::span<const AgentBeat> beats) override;
  Status SetAgentState(const std::string& agent, AgentState state,
                       const std::string& reason) override;
  Status HoldAgent(const std::string& agent,
                   const std::optional<HoldRecord>& hold,
                   const ActionRecord& action, bool own_only) override;
  Status DeleteAgent(const std::string& agent,
                     const ActionRecord& action) override;
  Result<std::vector<Pulse>> ListAgentPulses() override;
  Result<std::vector<std::string>> ExpireAgents(
      std::span<const Pulse> silent) override;
  Result<std::vector<AgentRecord>> ListAgents() override;
  Result<AgentRecord> GetAgent(const std::string& id) override;
  Result<std::vector<DeviceRecord>> ListDevices(
      const std::string& kind) override;
  Result<DeviceRecord> GetDevice(const std::string& id) override;
  Result<std::int64_t> CountDevices() override;
  Result<std::vector<KindSummary>> ListKinds() override;

  // Tasks
  Result<EnqueueResult> EnqueueTasks(std::span<const NewTask> tasks,
                                     const Asker& asker,
                                     UnixMillis now_ms) override;
  Result<std::vector<TaskRecord>> LeaseTasks(
      const LeaseRequest& request) override;
  Result<std::vector<std::int64_t>> RenewLeases(
      std::span<const LeaseRef> leases, UnixMillis until_ms) override;
  Result<CompletionResult> CompleteTask(
      const TaskCompletion& completion) override;
  Status AddToTask(const TaskCompletion& completion) override;
  Result<TaskState> FailTask(const TaskFailure& failure) override;
  Result<std::int64_t> ReleaseLeases(const std::string& agent) override;
  Result<std::int64_t> RetryFailedTasks(const std::string& kind,
                                        const Asker& asker) override;
  Result<std::int64_t> ReopenStaleTasks(const std::string& kind,
                                        std::span<const TaskKey> keys,
                                        std::span<const std::string> drivers,
                                        const Asker& asker) override;
  Result<TaskCounts> CancelTasks(std::span<const std::int64_t> tasks,
                                 const std::string& why,
                                 UnixMillis now_ms) override;
  Result<std::int64_t> ReopenCancelledTasks(std::span<const TaskKey> keys,
                                            const Asker& asker) override;
  Result<std::vector<TaskRecord>> ListTasks(const TaskFilter& filter) override;
  Result<std::vector<TaskRecord>> FindTasks(
      std::span<const TaskKey> keys) override;
  Result<TaskRecord> GetTask(std::int64_t id) override;
  Result<std::vector<TaskRecord>> ListLeases(UnixMillis now_ms) override;
  Result<std::map<std::string, TaskCounts>> CountTasks(
      UnixMillis now_ms) override;
  Result<OpenTasks> CountOpenTasks(const std::string& caller) override;

  // Campaigns
  Result<std::int64_t> BeginCampaign(const CampaignRecord& campaign) override;
  Result<std::int64_t> UpdateCampaign(const std::string& key,
                                      const std::string& progress, bool ended,
                                      UnixMillis now_ms) override;
  Result<std::vector<CampaignRecord>> ListCampaigns(
      std::int64_t limit, std::int64_t before_id) override;
  Result<std::vector<CampaignRecord>> ListRunningCampaigns(
      std::int64_t limit) override;
  Result<CampaignRecord> GetCampaign(std::int64_t id) override;

  // Actions
  Status AddAction(const ActionRecord& action) override;
  Result<std::vector<ActionRecord>> ListActions(
      std::int64_t limit, std::int64_t before_id) override;

  // Changes
  Result<ChangeCounts> CountChanges() override;
  Status CompactCounts() override;

  // Measurements
  Status PutMeasurements(std::span<const Measurement> measurements) override;
  Status ImportProfile(std::span<const Measurement> measurements,
                       std::span<const CompleteBatch> batches,
                       UnixMillis now_ms) override;
  Result<PointsByProblem> LoadProfile(
      const std::string& kind, std::span<const std::string> problems,
      std::span<const BatchSize> batches,
      std::span<const std::string> drivers) override;
  Result<std::vector<Measurement>> LoadMeasurements(
      const std::string& kind, const std::string& after,
      std::int64_t max_points) override;
  Result<std::vector<CompleteBatch>> ListCompleteBatches(
      const std::string& kind, const std::string& problem) override;
  Result<std::vector<ProfileSummary>> ListProfiles() override;
  Status PutDeviceModel(const DeviceModelRecord& record) override;
  Result<std::vector<DeviceModelRecord>> ListDeviceModels(
      const std::string& kind) override;
  Status PutCrossCheckMeasurement(const CrossCheckMeasurement& m,
                                  const ReportIdentity& identity) override;
  Result<KindCrossChecks> LoadCrossChecks(const std::string& kind) override;

  // Plans
  Result<std::int64_t> PutNetwork(const NetworkRecord& network) override;
  Result<std::vector<NetworkRecord>> ListNetworks(
      std::int64_t limit, const std::string& after) override;
  Result<std::int64_t> CountNetworks() override;
  Status DeleteNetwork(const std::string& name,
                       const ActionRecord& action) override;
  Result<NetworkRecord> GetNetwork(
      const std::string& name, std::optional<std::int64_t> revision) override;
  Result<CreatedPlan> CreatePlan(const PlanRecord& plan) override;
  Result<std::vector<PlanRecord>> ListPlans(std::int64_t limit,
                                            std::int64_t before_id) override;
  Result<std::vector<std::int64_t>> ListPlanIds(
      std::int64_t limit, std::int64_t before_id) override;
  Result<PlanRecord> GetPlan(std::int64_t id) override;
  Result<std::optional<PlanRecord>> FindPlan(const std::string& key) override;
  Status UsePlans(std::span<const std::int64_t> ids,
                  UnixMillis now_ms) override;
  Status DeletePlan(std::int64_t id, const ActionRecord& action) override;

  // Jobs
  Status RegisterJob(const JobRecord& job, std::span<const JobRankRecord> ranks,
                     std::optional<std::int64_t> plan,
                     UnixMillis now_ms) override;
  Result<JobHeard> ReportSteps(const std::string& job,
                               std::span<const StepReport> reports,
                               UnixMillis now_ms) override;
  Result<JobRevisionRecord> AddJobRevision(const std::string& job,
                                           std::int64_t plan,
                                           const std::string& reason,
                                           UnixMillis now_ms) override;
  Result<std::optional<JobRevisionRecord>> ProposeJobRevision(
      const std::string& job, std::optional<std::int64_t> seen,
      std::int64_t plan, const std::string& reason, UnixMillis now_ms) override;
  Status WithdrawJobRevision(const std::string& job, std::int64_t revision,
                             const std::string& why) override;
  Result<std::int64_t> CountRanksOf(const std::string& asked_by,
                                    UnixMillis since_ms) override;
  Result<JobRevisionRecord> AcceptJobRevision(const std::string& job) override;
  Status AnswerJobRevision(const std::string& job, std::int64_t revision,
                           const std::string& rejected,
                           UnixMillis now_ms) override;
  Status FinishJob(const std::string& job, UnixMillis now_ms) override;
  Result<std::vector<Pulse>> ListJobPulses() override;
  Result<std::vector<RankPulse>> ListRankPulses() override;
  Result<std::vector<std::string>> ExpireJobs(
      std::span<const Pulse> silent) override;
  Result<std::vector<JobRecord>> ListJobs(std::int64_t limit,
                                          const std::string& after) override;
  Result<JobCounts> CountJobs() override;
  Result<JobDetails> GetJob(const std::string& id) override;
  Status DeleteJob(const std::string& id, const ActionRecord& action) override;

  // Retention
  Result<PrunedTasks> PruneTasks(UnixMillis before_ms, std::int64_t after_id,
                                 std::int64_t most) override;
  Result<std::int64_t> PruneSteps(UnixMillis before_ms,
                                  std::int64_t most) override;
  Result<std::int64_t> PruneJobs(UnixMillis before_ms,
                                 std::int64_t most) override;
  Result<std::int64_t> PrunePlans(UnixMillis before_ms,
                                  std::int64_t most) override;
  Result<PruneCounts> CountPrunable(const Cutoffs& cutoffs) override;

 private:
  std::unique_ptr<SqlDatabase> database_;
  GroupCommit<TaskReport, Result<CompletionResult>> reports_;
};

// Keys are indexed, and PostgreSQL indexes at most a third of a page.
inline constexpr std::size_t kMaxKeyBytes = 512;

// kInvalidArgument, naming `what`, if the key is empty or too long.
Status CheckKey(std::string_view what, std::string_view key);
// kInvalidArgument if the limit is negative.
Status CheckLimit(std::int64_t limit);

// Appends the texts to the parameters, and returns their names for a
// statement: "$3, $4".
std::string AddTexts(std::span<const std::string> texts,
                     std::vector<SqlValue>* parameters);

// Adds completion.cross_check and the device's measurement of it; see
// Tasks::CompleteTask.
Status AddCrossCheck(SqlTransaction& sql, const TaskCompletion& completion);

// The database's own.
Result<std::string> ReadEpoch(SqlTransaction& sql);

// kFailedPrecondition if a report is of something else than the task or
// cross-check `what`, which is of this kind and problem in the database of this
// epoch.
Status CheckIdentity(const ReportIdentity& identity, const std::string& epoch,
                     const std::string& kind, const std::string& problem,
                     std::string_view what);
// kFailedPrecondition if the lease is not the task's latest.
Status CheckLease(const TaskRecord& task, const LeaseRef& lease);

// Ends a task's lease. The token stays, so that repeated reports are known.
inline constexpr char kNoLease[] =
    "agent = '', device = '', lease_until_ms = 0";

// The pulses in the rows of (id, beats) that `statement` selects.
Result<std::vector<Pulse>> ReadPulses(SqlTransaction& sql,
                                      const std::string& statement);
// Runs `update` over the pulses as $rows (id, beats); returns the ids that it
// returns, sorted.
Result<std::vector<std::string>> UpdateSilent(SqlTransaction& sql,
                                              std::span<const Pulse> silent,
                                              const std::string& update);

// Points of a kind's problem, in memory.
struct MeasuredPoints {
  std::string_view kind;
  std::string_view problem;
  std::span<const MeasuredPoint> points;
  const PointOrigin& origin;
};

// kInvalidArgument if the store takes no such points.
Status CheckPoints(const MeasuredPoints& measured);
// Measurements::PutMeasurements within a transaction, for checked points.
Status StorePoints(SqlTransaction& sql,
                   std::span<const MeasuredPoints> measured);
// The same for points that it checks.
Status StoreMeasurements(SqlTransaction& sql,
                         std::span<const Measurement> measurements);

// The columns that TaskOf reads, in its order.
inline constexpr std::string_view kTaskColumns =
    "id, kind, problem, batch, max_workspace_bytes, priority, state, attempts, "
    "failures, lease_token, agent, device, lease_until_ms, error, created_ms, "
    "finished_ms, goal, driver, asked_by";
Result<TaskRecord> TaskOf(const SqlRow& row);

// What makes a task pending again, with its attempts starting from zero.
inline constexpr std::string_view kOpenAgain =
    "state = 'pending', attempts = 0, failures = 0, error = '', "
    "finished_ms = 0";
// Runs `open`, which opens tasks for the asker and returns their number, in a
// transaction. Adds the error of CheckOpen.
Result<std::int64_t> OpenInTransaction(
    SqlDatabase& database, const Asker& asker,
    const std::function<Result<std::int64_t>(SqlTransaction&)>& open);

// The columns that RevisionOf reads, in its order.
inline constexpr std::string_view kRevisionColumns =
    "revision, plan, reason, rejected, created_ms, adopted_ms, proposed";
Result<JobRevisionRecord> RevisionOf(const SqlRow& row);
// The job's newest revision for its ranks to adopt.
Result<JobRevisionRecord> NewestRevision(SqlTransaction& sql,
                                         const std::string& job);
Result<bool> PlanExists(SqlTransaction& sql, std::int64_t plan);
// Deletes the job with its ranks, revisions and steps.
Status DeleteJobRows(SqlTransaction& sql, const std::string& job);

// The keys as rows (kind, problem, batch, goal).
SqlRows KeyRows(std::span<const TaskKey> keys);
// Whether a task has the key that a row has.
inline constexpr char kTaskHasRowsKey[] =
    "tasks.kind = rows.kind AND tasks.problem = rows.problem AND "
    "tasks.batch = rows.batch AND tasks.goal = rows.goal";

// Actions::AddAction within a transaction.
Status AddAction(SqlTransaction& sql, const ActionRecord& action);

// The error for a stored value that no version has written.
inline Error Unreadable(const Error& error) {
  return {Code::kDataLoss, "the database is not readable: " + error.message};
}

// The record that `read` makes of each row.
template <class Read>
auto Records(const Result<std::vector<SqlRow>>& rows, const Read& read) {
  using Record =
      typename std::invoke_result_t<const Read&, const SqlRow&>::value_type;
  using Records = Result<std::vector<Record>>;
  if (!rows) return Records(tl::unexpected<Error>(rows.error()));
  std::vector<Record> records;
  records.reserve(rows->size());
  for (const SqlRow& row : *rows) {
    auto record = read(row);
    if (!record) {
      return Records(tl::unexpected<Error>(Unreadable(record.error())));
    }
    records.push_back(*std::move(record));
  }
  return Records(std::move(records));
}

// The record of the only row; kNotFound, naming `what`, if there is no row.
template <class Read>
auto OneRecord(const Result<std::vector<SqlRow>>& rows, const Read& read,
               const std::string& what)
    -> std::invoke_result_t<const Read&, const SqlRow&> {
  if (!rows) return tl::unexpected<Error>(rows.error());
  if (rows->empty()) return Fail(Code::kNotFound, "there is no {}", what);
  return read(rows->front()).map_error(Unreadable);
}

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_SQL_STORE_H_
