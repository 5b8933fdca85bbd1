#ifndef UCUDNN_TESTS_INTEGRATION_CLUSTER_H_
#define UCUDNN_TESTS_INTEGRATION_CLUSTER_H_

// Coordinators and an agent as processes, as an administrator runs them. The
// environment variable UCUDNN_TEST_SHAPE says how, so that the same tests run
// in both shapes (ucudnn_test_with_two in CMakeLists.txt):
//
//   one  one coordinator over SQLite, without TLS; the default
//   two  two coordinators over one PostgreSQL, with TLS; this process and its
//        children have an admin's certificate unless they get another

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/service/credentials.h"
#include "coordinator/security/principal.h"
#include "tests/support/postgres.h"
#include "tests/support/process.h"

namespace ucudnn::test {

class Cluster {
 public:
  // An empty database of its own.
  Cluster();
  // One coordinator over this database.
  explicit Cluster(std::string database) : Cluster(1, std::move(database)) {}

  // Starts those that do not run, or restarts them on the same ports, and waits
  // until they serve.
  void StartCoordinators(const std::vector<std::string>& arguments = {});
  void KillCoordinators();
  // Those that are started from then on have another database, an empty one.
  void LoseDatabase();
  void SignalCoordinators(int signal) const;
  // Sends each SIGTERM; returns 0 if each exits with that.
  int StopCoordinators(std::chrono::seconds limit = std::chrono::seconds(30));
  std::size_t coordinators() const { return coordinators_.size(); }
  Process& coordinator(std::size_t i = 0) { return coordinators_[i].process; }

  void SpawnAgent(const std::vector<std::string>& arguments = {
                      "--cpu-devices", "1", "--cpu-threads", "1"});
  // The same, and waits until its devices are online.
  void StartAgent(const std::vector<std::string>& arguments = {
                      "--cpu-devices", "1", "--cpu-threads", "1"});
  Process& agent() { return agent_; }

  static bool tls();
  // The server of all databases of this process; null over SQLite.
  static ThrowawayPostgres* postgres();
  // What this process shows coordinators; nothing without TLS.
  static CredentialFiles Credentials();
  static CredentialFiles CredentialsOf(
      Role role, const std::string& name,
      std::chrono::seconds lifetime = std::chrono::hours(1));
  // The same with a token, which coordinators know within a second or two.
  CredentialFiles TokenOf(Role role, const std::string& name) const;
  // Coordinators refuse the certificate from then on, within a second or two.
  static void Revoke(const CredentialFiles& files);
  // What a training job needs to reach the coordinator, and an agent its own.
  std::map<std::string, std::string> JobEnvironment() const;
  static std::map<std::string, std::string> AgentEnvironment(
      const std::string& id);

  // Of all coordinators.
  std::vector<std::string> addresses() const;
  // The same, separated by commas.
  std::string address() const;
  // Where they serve REST, as URLs.
  std::vector<std::string> rest_addresses() const;
  // Of the first one.
  int http_port() const { return coordinators_.front().ports.http; }
  int probe_port() const { return coordinators_.front().ports.probe; }

  // Runs `ucudnn ARGUMENTS...` with these coordinators.
  Finished Ucudnn(std::vector<std::string> arguments) const;
  // Its standard output as JSON; discarded if it failed or printed none.
  nlohmann::json UcudnnJson(std::vector<std::string> arguments) const;

  std::string Log() const { return FileText(folder_ / "log"); }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  struct Ports {
    int grpc = 0;
    int http = 0;
    int probe = 0;
  };
  struct Coordinator {
    Process process;
    Ports ports;
    std::string ready;  // a file
  };

  Cluster(std::size_t coordinators, std::string database);
  void Start(const std::vector<std::string>& arguments, Coordinator* started);
  void Await(Coordinator* started) const;

  TemporaryFolder folder_;
  std::string database_;
  std::vector<Coordinator> coordinators_;
  Process agent_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_INTEGRATION_CLUSTER_H_
