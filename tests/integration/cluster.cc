#include "tests/integration/cluster.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <csignal>
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

// Whether the shape is `two`.
bool Two() {
  static const bool two = [] {
    const char* value = std::getenv("UCUDNN_TEST_SHAPE");
    const std::string name = value == nullptr ? "one" : value;
    if (name == "one" || name == "two") return name == "two";
    throw std::runtime_error("UCUDNN_TEST_SHAPE=" + name +
                             ": one and two are accepted");
  }();
  return two;
}

// Runs PostgreSQL's server while tests run, in the shape that needs it.
class Server : public ::testing::Environment {
 public:
  void SetUp() override {
    if (!Two()) return;
    auto started = ThrowawayPostgres::Start(ThrowawayPostgres::Disk::kFast);
    ASSERT_TRUE(started) << started.error().message;
    postgres_ = *std::move(started);
  }
  void TearDown() override { postgres_.reset(); }
  ThrowawayPostgres* postgres() const { return postgres_.get(); }

 private:
  std::unique_ptr<ThrowawayPostgres> postgres_;
};

// GoogleTest owns it.
Server* const server =
    static_cast<Server*>(::testing::AddGlobalTestEnvironment(new Server));

// The URL of an empty database, which has the name if it is a file.
std::string NewDatabase(const TemporaryFolder& folder,
                        const std::string& name) {
  if (!Two()) return "sqlite://" + (folder / (name + ".db"));
  const auto url = server->postgres()->CreateDatabase();
  if (!url) throw std::runtime_error(url.error().message);
  return *url;
}

// Those of all clusters of the process.
Certificates& SharedCertificates() {
  static Certificates certificates;
  return certificates;
}

std::map<std::string, std::string> VariablesOf(const CredentialFiles& files) {
  return {{kCaVariable, files.ca},
          {kCertVariable, files.cert},
          {kKeyVariable, files.key}};
}

}  // namespace

bool Cluster::tls() { return Two(); }

ThrowawayPostgres* Cluster::postgres() { return server->postgres(); }

CredentialFiles Cluster::Credentials() {
  return CredentialsFrom(
      [](const std::string& name) -> std::optional<std::string> {
        const char* value = tls() ? std::getenv(name.c_str()) : nullptr;
        return value == nullptr ? std::nullopt : std::optional(value);
      });
}

CredentialFiles Cluster::CredentialsOf(Role role, const std::string& name,
                                       std::chrono::seconds lifetime) {
  return tls() ? SharedCertificates().Issue(role, name, lifetime)
               : CredentialFiles();
}

void Cluster::Revoke(const CredentialFiles& files) {
  SharedCertificates().Revoke(files);
}

CredentialFiles Cluster::TokenOf(Role role, const std::string& name) const {
  if (!tls()) return {};
  CredentialFiles files = SharedCertificates().ca();
  files.token = folder_ / (name + ".token");
  const Status written =
      ReplaceFile(files.token, SharedCertificates().AddToken(role, name), 0600);
  if (!written) throw std::runtime_error(written.error().message);
  return files;
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

Cluster::Cluster() : Cluster(Two() ? 2 : 1, "") {}

Cluster::Cluster(std::size_t coordinators, std::string database)
    : database_(std::move(database)), coordinators_(coordinators) {
  if (database_.empty()) database_ = NewDatabase(folder_, "coordinator");
  for (std::size_t i = 0; i < coordinators; ++i) {
    coordinators_[i].ready = folder_ / ("ready" + std::to_string(i));
  }
  if (!tls()) return;
  for (const auto& [name, value] :
       VariablesOf(SharedCertificates().Issue(Role::kAdmin, "test"))) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
}

void Cluster::LoseDatabase() { database_ = NewDatabase(folder_, "another"); }

std::vector<std::string> Cluster::addresses() const {
  std::vector<std::string> addresses;
  for (const Coordinator& coordinator : coordinators_) {
    addresses.push_back("127.0.0.1:" + std::to_string(coordinator.ports.grpc));
  }
  return addresses;
}

std::vector<std::string> Cluster::rest_addresses() const {
  std::vector<std::string> addresses;
  for (const Coordinator& coordinator : coordinators_) {
    addresses.push_back(fmt::format("http{}://127.0.0.1:{}", tls() ? "s" : "",
                                    coordinator.ports.http));
  }
  return addresses;
}

std::string Cluster::address() const {
  return fmt::format("{}", fmt::join(addresses(), ","));
}

void Cluster::StartCoordinators(const std::vector<std::string>& arguments) {
  std::vector<Coordinator*> started;
  for (Coordinator& coordinator : coordinators_) {
    if (coordinator.process.running()) continue;
    Start(arguments, &coordinator);
    started.push_back(&coordinator);
  }
  for (Coordinator* coordinator : started) Await(coordinator);
}

void Cluster::Start(const std::vector<std::string>& arguments,
                    Coordinator* started) {
  const auto at = [](int port) { return "127.0.0.1:" + std::to_string(port); };
  std::filesystem::remove(started->ready);
  std::vector<std::string> command = {Binary("ucudnn-coord"),
                                      "serve",
                                      "--listen",
                                      at(started->ports.grpc),
                                      "--http",
                                      at(started->ports.http),
                                      "--database",
                                      database_,
                                      "--create",
                                      "--ready-file",
                                      started->ready,
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
    command.insert(command.end(),
                   {"--ca", files.ca, "--cert", files.cert, "--key", files.key,
                    "--tokens", files.tokens, "--revoked", files.revoked});
  }
  started->process = Process(command, folder_ / "log");
}

void Cluster::Await(Coordinator* started) const {
  const bool serves = WaitUntil([&] {
    return std::filesystem::exists(started->ready) ||
           !started->process.running();
  });
  const auto ports = nlohmann::json::parse(FileText(started->ready), nullptr,
                                           /*exceptions=*/false);
  if (!serves || ports.is_discarded()) {
    throw std::runtime_error("a coordinator does not start:\n" + Log());
  }
  started->ports = {.grpc = ports["grpc_port"],
                    .http = ports["http_port"],
                    .probe = ports["probe_port"]};
}

void Cluster::KillCoordinators() {
  for (Coordinator& coordinator : coordinators_) coordinator.process.Kill();
}

void Cluster::SignalCoordinators(int signal) const {
  for (const Coordinator& coordinator : coordinators_) {
    coordinator.process.Signal(signal);
  }
}

int Cluster::StopCoordinators(std::chrono::seconds limit) {
  SignalCoordinators(SIGTERM);
  int worst = 0;
  for (Coordinator& coordinator : coordinators_) {
    const int status = coordinator.process.Wait(limit);
    if (status != 0) worst = status;
  }
  return worst;
}

void Cluster::SpawnAgent(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {
      Binary("ucudnn-agent"), "--coordinator", address(), "--id",
      "agent-under-test",     "--repeats",     "3"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  agent_ =
      Process(command, folder_ / "log", AgentEnvironment("agent-under-test"));
}

void Cluster::StartAgent(const std::vector<std::string>& arguments) {
  SpawnAgent(arguments);
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
