// Builders of records, and the tests of the database itself.

#include "tests/contract/store_contract.h"

#include <utility>

namespace ucudnn {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreContract);

AgentRecord TestAgent(const std::string& id) {
  return {.id = id,
          .host = "node1",
          .version = "0.1.0",
          .state = AgentState::kOnline,
          .registered_ms = 0,
          .last_seen_ms = 0};
}

NetworkRecord TestNetwork(const std::string& name, const std::string& hash) {
  return {.name = name,
          .revision = 0,
          .format = NetworkFormat::kOnnx,
          .source = std::string("\0\xFF\x01", 3) + hash,
          .layers = "[]" + hash,
          .hash = hash,
          .created_ms = 5};
}

PlanRecord TestPlan(const std::string& key) {
  return {.key = key,
          .predicted = Nanoseconds(7),
          .created_ms = 9,
          .outline = std::string("\0outline", 8),
          .body = std::string("\0\xFF body", 7)};
}

DeviceKind TestKind(int n) {
  return {.model = fmt::format("NVIDIA Model {}", n),
          .units = 132,
          .memory = 139_GiB,
          .library = "cudnn-9.19"};
}

DeviceRecord TestDevice(const std::string& id, int kind) {
  return {.id = id,
          .agent = "",
          .kind = TestKind(kind),
          .driver = "CUDA 13.0",
          .state = DeviceState::kIdle,
          .reason = "",
          .last_seen_ms = 0};
}

NewTask TestTask(int problem, std::int64_t batch, int kind) {
  return {.key = {.kind = ToString(TestKind(kind)),
                  .problem = fmt::format("forward-c{}", problem),
                  .batch = BatchSize(batch)},
          .max_workspace = 64_MiB,
          .priority = 0};
}

MeasuredPoint TestPoint(std::int64_t batch, const std::string& algorithm,
                        std::int64_t time_ns) {
  return {.batch = BatchSize(batch),
          .algorithm = {.name = algorithm,
                        .math = "FMA",
                        .precision = Precision::kFp32},
          .workspace = 8_MiB,
          .time = Nanoseconds(time_ns),
          .spread = Nanoseconds(10),
          .repeats = 5};
}

Measurement TestMeasurement(int problem, const MeasuredPoint& point,
                            UnixMillis measured_ms) {
  return {.kind = ToString(TestKind()),
          .problem = TestTask(problem).key.problem,
          .point = point,
          .origin = {.device = "GPU-1",
                     .driver = "CUDA 13.0",
                     .measured_ms = measured_ms}};
}

std::vector<TaskRecord> Lease(Store& store, std::int64_t count,
                              UnixMillis now_ms, const std::string& agent) {
  auto tasks = store.tasks.LeaseTasks({.kind = ToString(TestKind()),
                                       .agent = agent,
                                       .device = "GPU-" + agent,
                                       .max_count = count,
                                       .now_ms = now_ms,
                                       .until_ms = now_ms + 100});
  if (!tasks) {
    ADD_FAILURE() << tasks.error().message;
    return {};
  }
  return *std::move(tasks);
}

TaskCompletion Completion(const TaskRecord& task,
                          std::vector<MeasuredPoint> points) {
  return {
      .lease = task.lease(),
      .max_workspace = task.max_workspace,
      .points = std::move(points),
      .origin = {.device = "GPU-1", .driver = "CUDA 13.0", .measured_ms = 1000},
      .now_ms = 1001};
}

EnqueueResult Enqueue(Store& store, const std::vector<NewTask>& tasks) {
  return store.tasks.EnqueueTasks(tasks, {}, 1).value();
}

std::vector<std::string> Problems(const std::vector<TaskRecord>& tasks) {
  std::vector<std::string> problems;
  for (const TaskRecord& task : tasks) problems.push_back(task.key.problem);
  return problems;
}

namespace {

TEST_P(StoreContract, TakesWrites) { EXPECT_TRUE(store().CheckWritable()); }

}  // namespace
}  // namespace ucudnn
