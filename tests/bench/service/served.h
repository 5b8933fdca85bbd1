#ifndef UCUDNN_TESTS_BENCH_SERVICE_SERVED_H_
#define UCUDNN_TESTS_BENCH_SERVICE_SERVED_H_

// A coordinator with default settings over a durable database of its own, and
// the made-up measurements that it is filled with.

#include <memory>
#include <string>
#include <vector>

#include "base/training/device_model.h"
#include "tests/support/postgres.h"
#include "tests/support/process.h"
#include "ucudnn/v1/agent.grpc.pb.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn::test {

class Served {
 public:
  // `database` is sqlite or postgres. The coordinator runs on the processors
  // of a list such as 0-3, by taskset; on any if it is empty.
  explicit Served(const std::string& database, std::string cpus = "");

  // Starts, or restarts after Kill() of its process.
  void Start(const std::vector<std::string>& arguments = {});

  Process& process() { return process_; }
  // How often its log has the text, since it was first started.
  std::int64_t CountInLog(const std::string& text) const;
  const std::string& database_url() const { return database_url_; }
  std::string address() const {
    return "127.0.0.1:" + std::to_string(grpc_port_);
  }
  int grpc_port() const { return grpc_port_; }
  int http_port() const { return http_port_; }
  v1::CoordinatorService::Stub& coordinator() { return *coordinator_; }
  v1::AgentService::Stub& agents() { return *agents_; }

 private:
  TemporaryFolder folder_;
  const std::string cpus_;
  std::unique_ptr<ThrowawayPostgres> postgres_;
  std::string database_url_;
  int grpc_port_ = 0;
  int http_port_ = 0;
  Process process_;
  std::unique_ptr<v1::CoordinatorService::Stub> coordinator_;
  std::unique_ptr<v1::AgentService::Stub> agents_;
};

// Ends the program.
[[noreturn]] void Die(const std::string& why);
// The same if a call failed.
void Check(const grpc::Status& status);

// "Made-up GPU 0 (132, 80 GiB, test 1.0)", for n from 0.
v1::DeviceKind KindDetails(int n);
std::string KindName(int n);

// Registers an agent with one device of kind n; their ids are `id`.
v1::RegisterRequest Registration(const std::string& id, int n);

void Register(Served& served, const v1::RegisterRequest& request);

// `count` measured points of a problem and batch.
std::vector<v1::Measurement> Points(const std::string& problem,
                                    std::int64_t batch, int count);

// Puts the network of this file in tests/data; of networks/NAME.csv if none is
// named.
void PutNetwork(Served& served, const std::string& name,
                const std::string& file = "");

// Puts the device model of kind n.
void PutDeviceModel(Served& served, int n, const DeviceModel& model);

// Asks for the plan, whose kinds are registered first, and imports what it
// needs until there is one.
v1::Plan PlanWithMeasurements(Served& served, const v1::PlanRequest& request);

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_BENCH_SERVICE_SERVED_H_
