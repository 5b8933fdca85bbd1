#ifndef UCUDNN_TESTS_CONTRACT_STORE_CONTRACT_H_
#define UCUDNN_TESTS_CONTRACT_STORE_CONTRACT_H_

// The contract of every store, whatever its database. A test program links the
// contract's sources and names its database:
//
//   INSTANTIATE_TEST_SUITE_P(Sqlite, StoreContract,
//                            ::testing::Values(TestDatabaseFactory{...}));

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "coordinator/store/sql_database.h"
#include "coordinator/stores.h"

namespace ucudnn {

// An empty database; a factory's databases are used one at a time.
class TestDatabase {
 public:
  virtual ~TestDatabase() = default;
  virtual std::string url() const = 0;
  // Whether a second OpenStore(url()) sees what the first one wrote.
  virtual bool shared() const = 0;
  // Ends the database's own processes, if it has any, as a power cut would,
  // and starts them again.
  virtual void Crash() {}
};

struct TestDatabaseFactory {
  std::string name;
  std::function<std::unique_ptr<TestDatabase>()> make;
  // The same, with writes flushed to the disk.
  std::function<std::unique_ptr<TestDatabase>()> make_durable;

  friend void PrintTo(const TestDatabaseFactory& factory, std::ostream* out) {
    *out << factory.name;
  }
};

// How INSTANTIATE_TEST_SUITE_P names its tests.
inline std::string DatabaseName(
    const ::testing::TestParamInfo<TestDatabaseFactory>& parameter) {
  return parameter.param.name;
}

class StoreContract : public ::testing::TestWithParam<TestDatabaseFactory> {
 protected:
  void SetUp() override {
    database_ = GetParam().make();
    ASSERT_NE(database_, nullptr);
    store_ = Open();
  }

  std::unique_ptr<Store> Open() const {
    auto store = OpenStore(database_->url());
    if (!store) {
      ADD_FAILURE() << store.error().message;
      return nullptr;
    }
    return *std::move(store);
  }

  Store& store() { return *store_; }

  // Sends one agent's heartbeat; returns the agents that the store does not
  // know.
  std::vector<std::string> Beat(const std::string& agent,
                                std::vector<DeviceStatus> devices,
                                UnixMillis now_ms) {
    const AgentBeat beat{agent, std::move(devices), now_ms};
    return store().agents.Heartbeat(std::span(&beat, 1)).value();
  }

  std::unique_ptr<TestDatabase> database_;
  std::unique_ptr<Store> store_;
};

// Builders of valid records, distinguished by their parameters.
AgentRecord TestAgent(const std::string& id);
DeviceKind TestKind(int n = 0);
DeviceRecord TestDevice(const std::string& id, int kind = 0);
NetworkRecord TestNetwork(const std::string& name, const std::string& hash);
PlanRecord TestPlan(const std::string& key);
NewTask TestTask(int problem, std::int64_t batch = 32, int kind = 0);
MeasuredPoint TestPoint(std::int64_t batch, const std::string& algorithm,
                        std::int64_t time_ns);
Measurement TestMeasurement(int problem, const MeasuredPoint& point,
                            UnixMillis measured_ms = 1000);
// Enqueues `tasks` at time 1.
EnqueueResult Enqueue(Store& store, const std::vector<NewTask>& tasks);
std::vector<std::string> Problems(const std::vector<TaskRecord>& tasks);
// Leases up to `count` tasks of kind 0 at `now_ms`, for 100 ms.
std::vector<TaskRecord> Lease(Store& store, std::int64_t count,
                              UnixMillis now_ms,
                              const std::string& agent = "a");
TaskCompletion Completion(const TaskRecord& task,
                          std::vector<MeasuredPoint> points);

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_CONTRACT_STORE_CONTRACT_H_
