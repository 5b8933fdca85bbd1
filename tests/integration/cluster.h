#ifndef UCUDNN_TESTS_INTEGRATION_CLUSTER_H_
#define UCUDNN_TESTS_INTEGRATION_CLUSTER_H_

// A coordinator and an agent as processes, as an administrator runs them; with
// UCUDNN_TEST_TLS=1 over TLS, where this process and its children have an
// admin's certificate unless they get another.

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/service/credentials.h"
#include "tests/support/process.h"

namespace ucudnn::test {

class Cluster {
 public:
  // The coordinator's database; empty: an SQLite file of its own.
  explicit Cluster(std::string database = "");

  // Starts, or restarts on the same ports, and waits until it serves.
  void StartCoordinator(const std::vector<std::string>& arguments = {});
  // Waits until the agent's devices are online.
  void StartAgent(const std::vector<std::string>& arguments = {
                      "--cpu-devices", "1", "--cpu-threads", "1"});
  Process& coordinator() { return coordinator_; }
  Process& agent() { return agent_; }

  static bool tls();
  // What this process shows coordinators; nothing without TLS.
  static CredentialFiles Credentials();
  // What a training job needs to reach the coordinator, and an agent its own.
  std::map<std::string, std::string> JobEnvironment() const;
  static std::map<std::string, std::string> AgentEnvironment(
      const std::string& id);

  std::string address() const;
  int http_port() const { return http_port_; }
  int probe_port() const { return probe_port_; }

  // Runs `ucudnn ARGUMENTS...` with this coordinator.
  Finished Ucudnn(std::vector<std::string> arguments) const;
  // Its standard output as JSON; discarded if it failed or printed none.
  nlohmann::json UcudnnJson(std::vector<std::string> arguments) const;

  std::string Log() const { return FileText(folder_ / "log"); }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  std::string database_;
  int grpc_port_ = 0;
  int http_port_ = 0;
  int probe_port_ = 0;
  Process coordinator_;
  Process agent_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_INTEGRATION_CLUSTER_H_
