// What the store counts as it changes.

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

class Counting {
 public:
  explicit Counting(Store& store) : store_(store) { (void)Kind(); }

  // How much the count of kind 0 grew since the last call.
  std::int64_t Kind() {
    const ChangeCounts now = store_.changes.CountChanges().value();
    const auto found = now.kinds.find(ToString(TestKind()));
    const std::int64_t count = found == now.kinds.end() ? 0 : found->second;
    return count - std::exchange(last_, count);
  }

 private:
  Store& store_;
  std::int64_t last_ = 0;
};

TEST_P(StoreContract, CountsWhatPlansOfAKindAreMadeFrom) {
  Counting grew(store());
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-a")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 1));
  EXPECT_GT(grew.Kind(), 0);
  // Neither a device that begins to work nor a task that waits or is taken
  // changes a plan.
  Beat("a", {{"GPU-a", DeviceState::kBusy, ""}}, 2);
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3)});
  const auto tasks = Lease(store(), 2, 10);
  EXPECT_EQ(grew.Kind(), 0);

  EXPECT_TRUE(store().tasks.AddToTask(
      Completion(tasks[0], {TestPoint(32, "GEMM", 900)})));
  EXPECT_GT(grew.Kind(), 0);
  EXPECT_TRUE(store().tasks.CompleteTask(Completion(tasks[0], {})));
  EXPECT_GT(grew.Kind(), 0);
  EXPECT_TRUE(store().tasks.FailTask({.lease = tasks[1].lease(),
                                      .error = "no",
                                      .retryable = false,
                                      .now_ms = 11}));
  EXPECT_GT(grew.Kind(), 0);
  EXPECT_EQ(store().tasks.RetryFailedTasks(ToString(TestKind()), {}), 1);
  EXPECT_GT(grew.Kind(), 0);
  const std::vector<Measurement> newer = {
      TestMeasurement(1, TestPoint(32, "GEMM", 800))};
  EXPECT_TRUE(store().measurements.PutMeasurements(newer));
  EXPECT_GT(grew.Kind(), 0);
  EXPECT_TRUE(store().measurements.PutDeviceModel({.kind = ToString(TestKind()),
                                                   .driver = "1",
                                                   .device = "GPU-a",
                                                   .measured_ms = 1,
                                                   .model = "{}"}));
  EXPECT_GT(grew.Kind(), 0);
  EXPECT_TRUE(store().agents.SetAgentState("a", AgentState::kGone, "stopped"));
  EXPECT_GT(grew.Kind(), 0);
  // Another kind is counted apart.
  Enqueue(store(), {TestTask(1, 32, 1)});
  const std::vector<DeviceRecord> others = {TestDevice("GPU-b", 1)};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("b"), others, 12));
  EXPECT_EQ(grew.Kind(), 0);
}

TEST_P(StoreContract, CountsNetworksAndDeletedPlans) {
  const auto before = store().changes.CountChanges().value();
  ASSERT_TRUE(store().networks.PutNetwork(TestNetwork("n", "h")));
  const auto put = store().changes.CountChanges().value();
  EXPECT_GT(put.networks, before.networks);
  ASSERT_TRUE(store().networks.PutNetwork(TestNetwork("n", "h")));
  EXPECT_EQ(store().changes.CountChanges(), put);
  ASSERT_TRUE(store().networks.DeleteNetwork("n", {}));
  EXPECT_GT(store().changes.CountChanges()->networks, put.networks);

  const auto plan = store().plans.CreatePlan(TestPlan("k")).value();
  EXPECT_EQ(store().changes.CountChanges()->deleted_plans, 0);
  ASSERT_TRUE(store().plans.DeletePlan(plan.plan.id, {}));
  EXPECT_EQ(store().changes.CountChanges()->deleted_plans, 1);
}

TEST_P(StoreContract, CountsTheSameOnceItsCountsArePutTogether) {
  std::vector<NewTask> many;
  for (int i = 0; i < 300; ++i) many.push_back(TestTask(i));
  Enqueue(store(), many);
  for (int i = 0; i < 300; ++i) {
    const auto tasks = Lease(store(), 1, 10);
    ASSERT_EQ(tasks.size(), 1U);
    if (i % 2 == 0) {
      ASSERT_TRUE(store().tasks.CompleteTask(
          Completion(tasks[0], {TestPoint(32, "GEMM", 900)})));
    }
  }
  const auto changes = store().changes.CountChanges().value();
  const auto tasks = store().tasks.CountTasks(50).value();
  EXPECT_EQ(tasks.at(ToString(TestKind())).done, 150);
  EXPECT_EQ(tasks.at(ToString(TestKind())).leased, 150);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(store().changes.CompactCounts());
    EXPECT_EQ(store().changes.CountChanges(), changes);
    EXPECT_EQ(store().tasks.CountTasks(50), tasks);
  }
  // A lease that has expired counts as pending.
  EXPECT_EQ(store().tasks.CountTasks(110)->at(ToString(TestKind())).pending,
            150);
}

TEST_P(StoreContract, CountsCrossChecksAndWhatWasMeasuredOfThem) {
  const std::string kind = ToString(TestKind());
  EXPECT_TRUE(store().changes.CountChanges()->cross_checks.empty());
  Enqueue(store(), {TestTask(1)});
  const MeasuredPoint point = TestPoint(32, "GEMM", 900);
  TaskCompletion completion = Completion(Lease(store(), 1, 10)[0], {point});
  completion.cross_check = CrossCheck{.kind = kind,
                                      .problem = TestTask(1).key.problem,
                                      .batch = point.batch,
                                      .algorithm = point.algorithm,
                                      .workspace = point.workspace};
  ASSERT_TRUE(store().tasks.CompleteTask(completion));
  std::int64_t before = store().changes.CountChanges()->cross_checks.at(kind);
  EXPECT_GT(before, 0);
  const CrossCheckMeasurement measurement{
      .check = store().measurements.LoadCrossChecks(kind)->points.at(0).id,
      .device = "GPU-b",
      .driver = "d"};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(store().measurements.PutCrossCheckMeasurement(measurement));
    const std::int64_t after =
        store().changes.CountChanges()->cross_checks.at(kind);
    EXPECT_GT(after, before);
    before = after;
  }
}

}  // namespace
}  // namespace ucudnn
