// What a report of measurements leaves behind when storing it fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "base/conv_problem.h"
#include "coordinator/coordinator.h"
#include "coordinator/store/schema.h"
#include "coordinator/stores.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/support/fake_clock.h"
#include "ucudnn/v1/agent.pb.h"

namespace ucudnn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

using test::kKind;

// A database whose n-th write transaction after FailAt(n) fails.
class FailingDatabase final : public SqlDatabase {
 public:
  explicit FailingDatabase(std::unique_ptr<SqlDatabase> database)
      : database_(std::move(database)) {}
  const SqlDialect& dialect() const override { return database_->dialect(); }
  Status Run(TransactionMode mode, const Body& body) override {
    if (mode == TransactionMode::kWrite) ++writes_;
    if (mode == TransactionMode::kWrite && --writes_left_ == 0) {
      return Fail(Code::kUnavailable, "the disk went away");
    }
    return database_->Run(mode, body);
  }
  void FailAt(int write) { writes_left_ = write; }
  int writes() const { return writes_; }

 private:
  std::unique_ptr<SqlDatabase> database_;
  int writes_left_ = 0;
  int writes_ = 0;
};

class ReportTest : public ::testing::TestWithParam<int> {
 protected:
  ReportTest() {
    auto database = std::make_unique<FailingDatabase>(
        OpenSqlite("sqlite::memory:").value());
    database_ = database.get();
    UCUDNN_CHECK(PrepareSchema(*database).has_value());
    store_ = std::make_unique<Store>(std::move(database));
  }

  FakeClock clock_{1000};
  FailingDatabase* database_ = nullptr;
  std::unique_ptr<Store> store_;
};

TEST_P(ReportTest, LeavesTheSameStateWhenRepeatedAfterAFailure) {
  Coordinator coordinator(CoordinatorOptions(), *store_, clock_);
  ASSERT_TRUE(coordinator.agents.Register(test::Agent("a", "d")));
  const std::string problem = ToString(ConvProblem());
  const NewTask task{
      .key = {.kind = kKind, .problem = problem, .batch = BatchSize(8)},
      .max_workspace = 1_MiB};
  ASSERT_TRUE(store_->tasks.EnqueueTasks(std::span(&task, 1), {}, 1000));
  const auto leased = store_->tasks.LeaseTasks({.kind = kKind,
                                                .agent = "a",
                                                .device = "d",
                                                .now_ms = 1000,
                                                .until_ms = 2000});
  ASSERT_EQ(leased->size(), 1U);
  v1::ReportTaskRequest report;
  report.set_task_id(leased->front().id);
  report.set_epoch(store_->Epoch().value());
  report.set_kind(kKind);
  report.set_problem(problem);
  report.set_lease_token(leased->front().lease_token);
  report.set_agent_id("a");
  report.set_device_id("d");
  report.set_max_workspace_bytes(task.max_workspace.count());
  v1::Measurement& point = *report.add_measurements();
  point.set_batch(8);
  point.set_algorithm("GEMM");
  point.set_precision("FP32");
  point.set_time_ns(1000);
  point.set_repeats(5);

  database_->FailAt(GetParam());
  if (!coordinator.measuring.ReportTask(report)) {
    ASSERT_TRUE(coordinator.measuring.ReportTask(report));
  }
  EXPECT_EQ(store_->tasks.GetTask(leased->front().id)->state, TaskState::kDone);
  EXPECT_EQ(store_->measurements.LoadMeasurements(kKind)->size(), 1U);
  const KindCrossChecks checks =
      store_->measurements.LoadCrossChecks(kKind).value();
  ASSERT_EQ(checks.points.size(), 1U);
  EXPECT_EQ(checks.points[0].problem, problem);
  ASSERT_EQ(checks.measurements.size(), 1U);
  EXPECT_EQ(checks.measurements[0].time, Nanoseconds(1000));
}

TEST_F(ReportTest, NeedsToSayWhatItIsOf) {
  Coordinator coordinator(CoordinatorOptions(), *store_, clock_);
  v1::ReportTaskRequest report;
  report.set_task_id(1);
  report.set_epoch(store_->Epoch().value());
  report.set_kind(kKind);
  const auto reported = coordinator.measuring.ReportTask(report);
  ASSERT_FALSE(reported);
  EXPECT_EQ(reported.error().code, Code::kInvalidArgument);
}

TEST_F(ReportTest, IsOfADeviceOfTheAgent) {
  Coordinator coordinator(CoordinatorOptions(), *store_, clock_);
  ASSERT_TRUE(coordinator.agents.Register(test::Agent("a", "d")));
  ASSERT_TRUE(coordinator.agents.Register(test::Agent("b", "e")));
  const std::string problem = ToString(ConvProblem());
  const NewTask task{
      .key = {.kind = kKind, .problem = problem, .batch = BatchSize(8)},
      .max_workspace = 1_MiB};
  ASSERT_TRUE(store_->tasks.EnqueueTasks(std::span(&task, 1), {}, 1000));
  v1::LeaseTasksRequest lease;
  lease.set_agent_id("a");
  lease.set_device_id("d");
  const v1::Task leased = coordinator.measuring.LeaseTasks(lease)->tasks(0);
  v1::ReportTaskRequest report;
  report.set_agent_id("b");
  report.set_device_id("d");
  report.set_task_id(leased.id());
  report.set_lease_token(leased.lease_token());
  report.set_epoch(leased.epoch());
  report.set_kind(kKind);
  report.set_problem(problem);
  EXPECT_EQ(coordinator.measuring.ReportTask(report).error().code,
            Code::kNotFound);
  report.set_error("broken");
  EXPECT_EQ(coordinator.measuring.ReportTask(report).error().code,
            Code::kNotFound);
  v1::ReportTaskRequest cross_check = report;
  cross_check.mutable_cross_check()->set_id(1);
  EXPECT_EQ(coordinator.measuring.ReportTask(cross_check).error().message,
            "device d is registered by agent a, not by b");
  EXPECT_EQ(store_->tasks.GetTask(leased.id())->state, TaskState::kLeased);
}

class ReportGroupTest : public ReportTest {
 protected:
  static constexpr int kTasks = 4;

  // Leases tasks of consecutive batches; returns a report of each.
  std::vector<TaskCompletion> LeaseAll() {
    std::vector<NewTask> tasks;
    for (int i = 1; i <= kTasks; ++i) {
      tasks.push_back({{kKind, ToString(ConvProblem()), BatchSize(i)}, 1_MiB});
    }
    UCUDNN_CHECK(store_->tasks.EnqueueTasks(tasks, {}, 1000).has_value());
    const auto leased = store_->tasks.LeaseTasks({.kind = kKind,
                                                  .agent = "a",
                                                  .device = "d",
                                                  .max_count = kTasks,
                                                  .now_ms = 1000,
                                                  .until_ms = 2000});
    std::vector<TaskCompletion> completions;
    for (const TaskRecord& task : *leased) {
      MeasuredPoint point;
      point.batch = task.key.batch;
      point.algorithm.name = "GEMM";
      completions.push_back({.lease = task.lease(),
                             .max_workspace = task.max_workspace,
                             .points = {point},
                             .origin = {}});
    }
    return completions;
  }

  // Reports all in one group; returns the error codes.
  std::vector<Code> Report(const std::vector<TaskCompletion>& completions) {
    std::vector<TaskReport> reports;
    for (const TaskCompletion& c : completions) reports.push_back({c, false});
    std::vector<const TaskReport*> group;
    for (const TaskReport& report : reports) group.push_back(&report);
    std::vector<Code> codes;
    for (const auto& receipt : StoreReports(*database_, group)) {
      codes.push_back(receipt ? Code::kOk : receipt.error().code);
    }
    return codes;
  }

  std::size_t Points() const {
    return store_->measurements.LoadMeasurements(kKind)->size();
  }
};

TEST_F(ReportGroupTest, IsStoredInOneTransaction) {
  const auto completions = LeaseAll();
  const int before = database_->writes();
  EXPECT_THAT(Report(completions), Each(Code::kOk));
  EXPECT_EQ(database_->writes(), before + 1);
  EXPECT_EQ(Points(), kTasks);
}

TEST_F(ReportGroupTest, RefusesABadReportAlone) {
  auto completions = LeaseAll();
  completions[1].points[0].batch = BatchSize(7);
  completions[2].lease.task = 999;
  EXPECT_THAT(Report(completions),
              ElementsAre(Code::kOk, Code::kInvalidArgument, Code::kNotFound,
                          Code::kOk));
  EXPECT_EQ(Points(), 2U);
}

TEST_F(ReportGroupTest, StoresTheOthersIfTheDatabaseRefusesOne) {
  auto completions = LeaseAll();
  completions[1].origin.driver = std::string("\xff", 1);
  EXPECT_THAT(
      Report(completions),
      ElementsAre(Code::kOk, Code::kInvalidArgument, Code::kOk, Code::kOk));
  EXPECT_EQ(Points(), 3U);
}

TEST_F(ReportGroupTest, FailsAsAWholeIfTheDatabaseIsAway) {
  const auto completions = LeaseAll();
  database_->FailAt(1);
  EXPECT_THAT(Report(completions), Each(Code::kUnavailable));
  EXPECT_EQ(Points(), 0U);
}

TEST_F(ReportGroupTest, KeepsTheFirstOfTwoReportsOfOneTask) {
  auto completions = LeaseAll();
  completions[1] = completions[0];
  completions[0].points[0].time = Nanoseconds(5);
  completions[1].points[0].time = Nanoseconds(7);
  EXPECT_THAT(Report(completions), Each(Code::kOk));
  EXPECT_EQ(Points(), 3U);
  EXPECT_EQ(store_->measurements.LoadMeasurements(kKind)->at(0).point.time,
            Nanoseconds(5));
}

TEST_F(ReportGroupTest, LeavesToTheNextGroupWhatWouldTakeLong) {
  auto completions = LeaseAll();
  completions[1].points.resize(3'000, completions[1].points[0]);
  EXPECT_THAT(Report(completions), SizeIs(1));
  std::swap(completions[0], completions[1]);
  EXPECT_THAT(Report(completions), SizeIs(1));
}

INSTANTIATE_TEST_SUITE_P(WhicheverWriteFails, ReportTest,
                         ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace ucudnn
