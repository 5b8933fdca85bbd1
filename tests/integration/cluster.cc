#include "tests/integration/cluster.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

#include "tests/support/certificates.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

std::string Binary(const std::string& name) { return test::ProgramPath(name); }

// Those of all clusters of the process.
const Certificates& SharedCertificates() {
  static const Certificates certificates;
  return certificates;
}

std::map<std::string, std::string> VariablesOf(const CredentialFiles& files) {
  return {{kCaVariable, files.ca},
          {kCertVariable, files.cert},
          {kKeyVariable, files.key}};
}

}  // namespace

bool Cluster::tls() { return std::getenv("UCUDNN_TEST_TLS") != nullptr; }

CredentialFiles Cluster::Credentials() {
  return CredentialsFrom(
      [](const std::string& name) -> std::optional<std::string> {
        const char* value = tls() ? std::getenv(name.c_str()) : nullptr;
        return value == nullptr ? std::nullopt : std::optional(value);
      });
}

std::map<std::string, std::string> Cluster::AgentEnvironment(
    const std::string& id) {
  if (!tls()) return {};
  return VariablesOf(SharedCertificates().Issue(Role::kAgent, id));
}

std::map<std::string, std::string> Cluster::JobEnvironment() const {
  std::map<std::string, std::string> environment;
  if (tls()) {
    environment = VariablesOf(SharedCertificates().Issue(Role::kJob, "job"));
  }
  environment["UCUDNN_COORDINATOR"] = address();
  return environment;
}

Cluster::Cluster(std::string database) : database_(std::move(database)) {
  if (database_.empty()) {
    database_ = "sqlite://" + (folder_ / "coordinator.db");
  }
  if (!tls()) return;
  for (const auto& [name, value] :
       VariablesOf(SharedCertificates().Issue(Role::kAdmin, "test"))) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
}

std::string Cluster::address() const {
  return "127.0.0.1:" + std::to_string(grpc_port_);
}

void Cluster::StartCoordinator(const std::vector<std::string>& arguments) {
  const std::string ready = folder_ / "ready";
  std::filesystem::remove(ready);
  std::vector<std::string> command = {Binary("ucudnn-coord"),
                                      "serve",
                                      "--listen",
                                      address(),
                                      "--http",
                                      "127.0.0.1:" + std::to_string(http_port_),
                                      "--database",
                                      database_,
                                      "--ready-file",
                                      ready,
                                      "--lease-ms",
                                      "2000",
                                      "--heartbeat-ms",
                                      "200",
                                      "--agent-timeout-ms",
                                      "3000",
                                      "--poll-after-ms",
                                      "50",
                                      "--report-after-ms",
                                      "100",
                                      "--job-timeout-ms",
                                      "3000"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (tls()) {
    const GuardFiles files = SharedCertificates().guard();
    command.insert(command.end(), {"--ca", files.ca, "--cert", files.cert,
                                   "--key", files.key});
  }
  coordinator_ = Process(command, folder_ / "log");
  const bool serves = WaitUntil([&] {
    return std::filesystem::exists(ready) || !coordinator_.running();
  });
  const auto ports =
      nlohmann::json::parse(FileText(ready), nullptr, /*exceptions=*/false);
  if (!serves || ports.is_discarded()) {
    throw std::runtime_error("the coordinator does not start:\n" + Log());
  }
  grpc_port_ = ports["grpc_port"];
  http_port_ = ports["http_port"];
  probe_port_ = ports["probe_port"];
}

void Cluster::StartAgent(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {
      Binary("ucudnn-agent"), "--coordinator", address(), "--id",
      "agent-under-test",     "--repeats",     "3"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  agent_ =
      Process(command, folder_ / "log", AgentEnvironment("agent-under-test"));
  const bool online = WaitUntil([&] {
    const nlohmann::json devices = UcudnnJson({"devices"});
    return !devices.empty() && devices[0].contains("state") &&
           devices[0]["state"] == "idle";
  });
  if (!online) throw std::runtime_error("the agent does not start:\n" + Log());
}

Finished Cluster::Ucudnn(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(),
                   {Binary("ucudnn"), "--coordinator", address()});
  return Run(arguments);
}

nlohmann::json Cluster::UcudnnJson(std::vector<std::string> arguments) const {
  arguments.insert(arguments.end(), {"-o", "json"});
  return nlohmann::json::parse(Ucudnn(std::move(arguments)).out, nullptr,
                               /*allow_exceptions=*/false);
}

}  // namespace ucudnn::test
