// What the coordinator serves: service_bench [--database sqlite|postgres]
// [--seconds N] ROW...
//
// Each row prints calls a second, latencies, the coordinator's CPU time a call
// and the load average. The load runs on the same cores unless taskset and
// --coordinator-cpus part them.

#include <fmt/format.h>
#include <httplib.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/files/file.h"
#include "base/training/device_model.h"
#include "base/units.h"
#include "client/dropin/ask/ask_coordinator.h"
#include "coordinator/stores.h"
#include "tests/bench/service/agent_certificates.h"
#include "tests/bench/service/fake_agents.h"
#include "tests/bench/service/load.h"
#include "tests/bench/service/served.h"
#include "tests/support/certificates.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using Json = nlohmann::ordered_json;
using Seconds = std::chrono::duration<double>;

constexpr char kCoordinator[] = "/ucudnn.v1.CoordinatorService/";
constexpr char kAgents[] = "/ucudnn.v1.AgentService/";

struct Options {
  std::string database = "sqlite";
  double seconds = 5;
  std::int64_t tasks = 1'000'000;
  int agents = 10'000;
  int connections = 0;    // of the agents; 0: one each
  bool tls = false;       // of the agents and the bodies
  std::string cpus;       // of the coordinator of agents and bodies
  std::string json;       // a file for what agents and bodies took
  int cross_checked = 0;  // devices of the kind that polls are of
  std::vector<std::string> rows;
};

// Runs a load and prints a row.
Outcome Row(Served& served, const std::string& name,
            const std::function<Outcome()>& load) {
  const auto cpu = served.process().CpuTime();
  Outcome outcome = load();
  const double cpu_us =
      1000.0 * static_cast<double>((served.process().CpuTime() - cpu).count()) /
      static_cast<double>(std::max<std::int64_t>(outcome.calls, 1));
  double load_average[1] = {0};
  getloadavg(load_average, 1);
  fmt::print(
      "{:<44} {:>9.1f} /s  p50 {:>8.2f} ms  p99 {:>8.2f} ms  CPU {:>8.1f} "
      "us/call  load {:.1f}{}\n",
      name, outcome.Rate(), outcome.Quantile(0.5), outcome.Quantile(0.99),
      cpu_us, load_average[0],
      outcome.failed == 0 ? ""
                          : fmt::format("  FAILED {} of {}: {}", outcome.failed,
                                        outcome.calls, outcome.first_error));
  std::fflush(stdout);
  return outcome;
}

v1::PlanRequest Request(const std::string& network, int kinds,
                        std::int64_t limit) {
  v1::PlanRequest request;
  request.set_network(network);
  request.set_batch(256);
  for (int i = 0; i < kinds; ++i) request.add_device_kinds(KindName(i));
  request.set_workspace_limit_bytes(limit);
  return request;
}

// Plans of AlexNet on one kind and of ResNet-50 on three.
struct Plans {
  v1::Plan small;
  v1::Plan large;
};

Plans MakePlans(Served& served) {
  for (const char* name : {"alexnet_owt", "resnet50"}) {
    PutNetwork(served, name);
  }
  return {PlanWithMeasurements(served, Request("alexnet_owt", 1, 64 << 20)),
          PlanWithMeasurements(served, Request("resnet50", 3, 64 << 20))};
}

NextRequest Always(const google::protobuf::Message& request) {
  return [bytes = request.SerializeAsString()] { return bytes; };
}

void StoredPlans(const Options& options) {
  Served served(options.database);
  served.Start();
  const Plans plans = MakePlans(served);
  const Seconds time(options.seconds);
  RpcLoad load(served.address(), 4);
  const std::string method = std::string(kCoordinator) + "GetPlan";
  for (const auto& [name, plan] : {std::pair{"AlexNet, 1 kind", &plans.small},
                                   std::pair{"ResNet-50, 3", &plans.large}}) {
    v1::GetRequest get;
    get.set_id(std::to_string(plan->id()));
    const std::string what =
        fmt::format("plan {} ({} kB)", name, plan->ByteSizeLong() / 1000);
    Row(served, what + " closed",
        [&] { return load.Closed(method, Always(get), 16, time); });
    for (const double rate : {100.0, 1000.0, 4000.0}) {
      Row(served, fmt::format("{} open {}/s", what, rate),
          [&] { return load.Open(method, Always(get), rate, time); });
    }
  }
}

void SamePlan(const Options& options) {
  Served served(options.database);
  served.Start();
  const Plans plans = MakePlans(served);
  RpcLoad load(served.address(), 1);
  const std::string method = std::string(kCoordinator) + "CreatePlan";
  for (const auto& [name, plan] : {std::pair{"AlexNet, 1 kind", &plans.small},
                                   std::pair{"ResNet-50, 3", &plans.large}}) {
    const NextRequest next = Always(plan->request());
    Row(served, fmt::format("same CreatePlan {}", name),
        [&] { return load.Closed(method, next, 1, Seconds(options.seconds)); });
  }
}

void NewPlans(const Options& options) {
  Served served(options.database);
  served.Start();
  PutNetwork(served, "resnet50");
  RpcLoad load(served.address(), 1);
  for (const bool total : {false, true}) {
    v1::PlanRequest request = Request("resnet50", 3, 64 << 20);
    if (total) request.set_total_workspace_bytes(512 << 20);
    PlanWithMeasurements(served, request);
    std::int64_t more = 0;
    const auto next = [&] {
      // Other limits make other plans; these make no difference to the shares.
      v1::PlanRequest other = request;
      ++more;
      if (total) {
        other.set_total_workspace_bytes(request.total_workspace_bytes() + more);
      } else {
        other.set_workspace_limit_bytes(request.workspace_limit_bytes() + more);
      }
      return other.SerializeAsString();
    };
    Row(served,
        fmt::format("new plan ResNet-50, 3, {}",
                    total ? "512 MiB in all" : "64 MiB a kernel"),
        [&] {
          return load.Closed(std::string(kCoordinator) + "CreatePlan", next, 1,
                             Seconds(options.seconds));
        });
  }
}

// Memory plans of several MB, and what they take of the coordinator's memory.
void MemoryPlans(const Options& options) {
  Served served(options.database);
  served.Start();
  PutNetwork(served, "resnet152", "onnx/resnet152.onnx");
  PutDeviceModel(served, 0, DeviceModelPreset("K40").value());
  // Two sizes of shares, each with a plan.
  v1::PlanRequest request = Request("resnet152", 1, 0);
  request.add_device_kinds(KindName(0));
  request.set_batch(511);
  request.set_batch_policy("undivided");
  request.mutable_memory()->set_budget_bytes((13_GiB).count());
  request.mutable_memory()->set_policy("vdnn-all");
  const v1::Plan plan = PlanWithMeasurements(served, request);
  fmt::print("memory plan of {} kB: {} MB of memory so far\n",
             plan.ByteSizeLong() / 1000,
             served.process().PeakMemoryKb() / 1000);
  RpcLoad load(served.address(), 1);
  const auto row = [&](const std::string& name, const char* method,
                       const NextRequest& next) {
    Row(served, name, [&] {
      return load.Closed(std::string(kCoordinator) + method, next, 1,
                         Seconds(options.seconds));
    });
    fmt::print("  {} MB at most so far\n",
               served.process().PeakMemoryKb() / 1000);
  };
  v1::GetRequest get;
  get.set_id(std::to_string(plan.id()));
  row("the memory plan", "GetPlan", Always(get));
  row("the same CreatePlan", "CreatePlan", Always(request));
  row("new memory plans", "CreatePlan", [&] {
    request.mutable_memory()->set_budget_bytes(request.memory().budget_bytes() +
                                               1);
    return request.SerializeAsString();
  });
  Row(served, "GET /v1/plans/{id}", [&] {
    return HttpLoad(served.http_port(), "/v1/plans/" + get.id(), 1,
                    Seconds(options.seconds));
  });
  fmt::print("  {} MB at most so far\n",
             served.process().PeakMemoryKb() / 1000);
}

void Lists(const Options& options) {
  Served served(options.database);
  served.Start();
  MakePlans(served);
  for (std::int64_t i = 1; i <= 100; ++i) {
    PlanWithMeasurements(served, Request("alexnet_owt", 3, (64 << 20) + i));
  }
  for (int i = 0; i < 100; ++i) {
    Register(served, Registration(fmt::format("agent-{:03}", i), i % 3));
  }
  for (const char* path : {"/v1/plans", "/v1/tasks", "/v1/devices",
                           "/v1/agents", "/v1/campaigns", "/v1/networks"}) {
    Row(served, fmt::format("GET {}?limit=100", path), [&] {
      return HttpLoad(served.http_port(), std::string(path) + "?limit=100", 4,
                      Seconds(options.seconds));
    });
  }
}

// Enqueues tasks of kind 0.
void AddTasks(const std::string& url, std::int64_t count) {
  const auto store = OpenStore(url).value();
  std::vector<NewTask> tasks;
  for (std::int64_t i = 0; i < count; ++i) {
    tasks.push_back({{KindName(0), fmt::format("made-up problem {}", i / 1000),
                      BatchSize(i % 1000 + 1)},
                     Bytes(1 << 30),
                     0});
    if (tasks.size() < 10'000 && i + 1 < count) continue;
    store->tasks.EnqueueTasks(tasks, {}, 1).value();
    tasks.clear();
  }
}

void Scrapes(const Options& options) {
  Served served(options.database);
  AddTasks(served.database_url(), options.tasks);
  served.Start();
  Row(served, fmt::format("GET /metrics, {} tasks", options.tasks), [&] {
    return HttpLoad(served.http_port(), "/metrics", 1,
                    Seconds(options.seconds));
  });
}

// Leases up to so many tasks for the agent's device, which has its id.
v1::LeaseTasksResponse Lease(Served& served, const std::string& agent,
                             int tasks) {
  v1::LeaseTasksRequest request;
  request.set_agent_id(agent);
  request.set_device_id(agent);
  request.set_max_tasks(tasks);
  grpc::ClientContext context;
  v1::LeaseTasksResponse leased;
  Check(served.agents().LeaseTasks(&context, request, &leased));
  return leased;
}

// The agent's report of the task, without points.
v1::ReportTaskRequest ReportOf(const std::string& agent, const v1::Task& task) {
  v1::ReportTaskRequest report;
  report.set_agent_id(agent);
  report.set_device_id(agent);
  report.set_task_id(task.id());
  report.set_lease_token(task.lease_token());
  report.set_max_workspace_bytes(task.max_workspace_bytes());
  report.set_driver("1");
  report.set_epoch(task.epoch());
  report.set_kind(task.kind());
  report.set_problem(task.problem());
  return report;
}

void Reports(const Options& options) {
  constexpr int kDevices = 32;
  Served served(options.database);
  AddTasks(served.database_url(),
           std::min<std::int64_t>(options.tasks, 40'000));
  served.Start();
  std::vector<std::string> reports;
  for (int i = 0; i < kDevices; ++i) {
    const std::string id = fmt::format("agent-{:03}", i);
    Register(served, Registration(id, 0));
  }
  for (int i = 0;; ++i) {
    const std::string agent = fmt::format("agent-{:03}", i % kDevices);
    const v1::LeaseTasksResponse leased = Lease(served, agent, 64);
    if (leased.tasks().empty()) break;
    for (const v1::Task& task : leased.tasks()) {
      v1::ReportTaskRequest report = ReportOf(agent, task);
      for (const auto& point : Points(task.problem(), task.batch(), 12)) {
        *report.add_measurements() = point;
      }
      reports.push_back(report.SerializeAsString());
    }
  }
  RpcLoad load(served.address(), 8);
  for (const int outstanding : {1, 64}) {
    const Outcome outcome =
        Row(served,
            fmt::format("reports of 12 points, {} at once", outstanding), [&] {
              return load.Closed(
                  std::string(kAgents) + "ReportTask",
                  [&] {
                    if (reports.empty()) return std::string();
                    std::string next = std::move(reports.back());
                    reports.pop_back();
                    return next;
                  },
                  outstanding, Seconds(options.seconds));
            });
    fmt::print("{:<44} {:>9.0f} points/s\n", "", outcome.Rate() * 12);
  }
}

// Has so many devices of kind 0 measure nine cross-checks.
void AddCrossChecks(const std::string& url, int devices) {
  constexpr int kChecks = 9;
  const auto store = OpenStore(url).value();
  const std::string kind = KindName(0);
  for (int i = 0; i < kChecks; ++i) {
    const NewTask task{
        {kind, fmt::format("made-up check {}", i), BatchSize(8)}, 1_GiB, 0};
    store->tasks.EnqueueTasks({&task, 1}, {}, 1).value();
    const auto leased = store->tasks.LeaseTasks({.kind = kind,
                                                 .agent = "agent",
                                                 .device = "agent",
                                                 .now_ms = 1,
                                                 .until_ms = 2});
    TaskCompletion completion;
    completion.lease = leased->at(0).lease();
    completion.max_workspace = task.max_workspace;
    completion.origin.device = "agent";
    CrossCheck& check = completion.cross_check.emplace();
    check.kind = kind;
    check.problem = task.key.problem;
    check.batch = task.key.batch;
    check.algorithm.name = "ALGORITHM";
    store->tasks.CompleteTask(completion).value();
  }
  const KindCrossChecks checks =
      store->measurements.LoadCrossChecks(kind).value();
  for (const CrossCheck& check : checks.points) {
    for (int i = 0; i < devices; ++i) {
      const CrossCheckMeasurement measured{
          .check = check.id,
          .device = i == 0 ? "agent" : fmt::format("device {}", i),
          .driver = "1",
          .time = Nanoseconds(1'000)};
      UCUDNN_CHECK(
          store->measurements.PutCrossCheckMeasurement(measured).has_value());
    }
  }
}

void Polls(const Options& options) {
  Served served(options.database);
  if (options.cross_checked > 0) {
    AddCrossChecks(served.database_url(), options.cross_checked);
  }
  served.Start();
  grpc::ClientContext context;
  v1::RegisterResponse response;
  Check(
      served.agents().Register(&context, Registration("agent", 0), &response));
  v1::LeaseTasksRequest poll;
  poll.set_agent_id("agent");
  poll.set_device_id("agent");
  poll.set_takes_cross_checks(true);
  RpcLoad load(served.address(), 4);
  const std::string name = fmt::format("LeaseTasks in vain, {} cross-checked",
                                       options.cross_checked);
  Row(served, name, [&] {
    return load.Closed(std::string(kAgents) + "LeaseTasks", Always(poll), 16,
                       Seconds(options.seconds));
  });
}

double LoadAverage() {
  double load_average[1] = {0};
  getloadavg(load_average, 1);
  return load_average[0];
}

// Prints it, and adds it to the file of --json.
void Record(const Options& options, const Json& what) {
  fmt::print("{}\n", what.dump());
  std::fflush(stdout);
  if (options.json.empty()) return;
  std::ofstream(options.json, std::ios::app) << what.dump() << "\n";
}

Json ToJson(const Outcome& calls, Seconds took) {
  Json json = {{"a_second", static_cast<double>(calls.calls) / took.count()},
               {"p50_ms", calls.Quantile(0.5)},
               {"p99_ms", calls.Quantile(0.99)},
               {"failed", calls.failed}};
  if (calls.failed > 0) json["first_error"] = calls.first_error;
  return json;
}

// What a coordinator that `certificates` are for serves with.
std::vector<std::string> GuardArguments(const Certificates& certificates) {
  const GuardFiles files = certificates.guard();
  return {"--ca",  files.ca,  "--cert",   files.cert,
          "--key", files.key, "--tokens", files.tokens};
}

// What the drop-in libraries ask before they measure, each time on a new
// connection, of coordinators that know the answer: in plaintext, and over TLS
// with a certificate and with a token, by turns.
void Questions(const Options& options) {
  Certificates certificates;
  Served plaintext(options.database);
  Served over_tls(options.database);
  ConvProblem problem;
  for (Served* served : {&plaintext, &over_tls}) {
    served->Start();
    PutNetwork(*served, "alexnet_owt");
    const v1::Plan plan =
        PlanWithMeasurements(*served, Request("alexnet_owt", 1, 64 << 20));
    problem = ParseConvProblem(plan.ranks(0).workspace().kernels(0).problem())
                  .value();
  }
  CredentialFiles token = certificates.ca();
  const TemporaryFolder folder;
  token.token = folder / "token";
  const Status written =
      ReplaceFile(token.token, certificates.AddToken(Role::kViewer, "v"), 0600);
  if (!written) Die(written.error().message);
  over_tls.process().Kill();
  over_tls.Start(GuardArguments(certificates));
  struct Way {
    std::string name;
    Served& served;
    CredentialFiles credentials;
    std::vector<double> ms = {};
  };
  std::vector<Way> ways = {
      {"plaintext", plaintext, {}},
      {"TLS, certificate", over_tls, certificates.Issue(Role::kJob, "j")},
      {"TLS, token", over_tls, token}};
  const auto end = std::chrono::steady_clock::now() + Seconds(options.seconds);
  std::size_t points = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (Way& way : ways) {
      CoordinatorAsker asker(
          {fmt::format("http://127.0.0.1:{}", way.served.http_port())},
          {.credentials = way.credentials, .within = std::chrono::seconds(10)});
      const auto start = std::chrono::steady_clock::now();
      const auto known = asker.Ask(KindName(0), problem);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      if (!known) Die(known.error().message);
      points = known->points.size();
      way.ms.push_back(took.count());
    }
  }
  double load_average[1] = {0};
  getloadavg(load_average, 1);
  fmt::print("questions with {} points as the answer, load {:.1f}\n", points,
             load_average[0]);
  for (Way& way : ways) {
    const auto quantile = [](std::vector<double>& ms, double part) {
      std::ranges::sort(ms);
      return ms[static_cast<std::size_t>(part *
                                         static_cast<double>(ms.size() - 1))];
    };
    fmt::print(
        "  {:<20} {:>6}  p50 {:>6.2f} ms  p10 {:>6.2f}  p90 {:>6.2f}  p99 "
        "{:>6.2f}\n",
        way.name, way.ms.size(), quantile(way.ms, 0.5), quantile(way.ms, 0.1),
        quantile(way.ms, 0.9), quantile(way.ms, 0.99));
  }
}

// As many as may be, here and in the coordinator.
void AllowDescriptors() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// A request with a body of 4 MiB, the most that JSON may have.
struct Body {
  const char* name;
  const char* method;
  const char* path;
  const char* type;
  std::string text;
};

std::vector<Body> LongBodies() {
  constexpr std::size_t kBytes = 4 << 20;
  // As many values as are read, each a text of its own.
  std::string json = "{\"network\":\"n\",\"batch\":1,\"device_kinds\":[\"k\"";
  const std::string value = ",\"" + std::string(29, 'k') + "\"";
  while (json.size() + value.size() + 2 <= kBytes) json += value;
  json += "]}";
  json.append(kBytes - json.size(), ' ');
  std::string csv = FileText(DataPath("networks/alexnet_owt.csv"));
  const std::string layers = csv.substr(csv.find('\n') + 1);
  while (csv.size() + layers.size() <= kBytes) csv += layers;
  csv.append(kBytes - csv.size(), '\n');
  return {{"JSON", "POST", "/v1/plans", "application/json", json},
          {"CSV", "PUT", "/v1/networks/n", "text/csv", csv}};
}

// Sends the body on 200 connections at once; how many were answered how.
std::map<std::string, int> SendAtOnce(const Options& options, int port,
                                      const std::string& ca, const Body& body,
                                      const std::string& token) {
  constexpr int kBodies = 200;
  std::vector<std::string> answers(kBodies);
  {
    std::vector<std::jthread> threads;
    for (std::string& status : answers) {
      threads.emplace_back([&] {
        httplib::Client http(fmt::format("{}://127.0.0.1:{}",
                                         options.tls ? "https" : "http", port));
        http.set_ca_cert_path(ca.c_str());
        http.set_read_timeout(std::chrono::seconds(60));
        if (!token.empty()) http.set_bearer_token_auth(token);
        httplib::Request request;
        request.method = body.method;
        request.path = body.path;
        request.body = body.text;
        request.set_header("Content-Type", body.type);
        const auto answer = http.send(request);
        status = answer ? std::to_string(answer->status)
                        : httplib::to_string(answer.error());
      });
    }
  }
  std::map<std::string, int> counts;
  for (const std::string& status : answers) ++counts[status];
  return counts;
}

// Long bodies from clients that nobody knows, and over TLS from an operator.
void Bodies(const Options& options) {
  AllowDescriptors();
  Certificates certificates;
  std::vector<std::string> guard = GuardArguments(certificates);
  std::vector<std::string> tokens = {""};
  if (options.tls) {
    tokens.push_back(certificates.AddToken(Role::kOperator, "o"));
  } else {
    guard.clear();
  }
  for (const Body& body : LongBodies()) {
    for (const std::string& token : tokens) {
      Served served(options.database, options.cpus);
      served.Start(guard);
      const long before = served.process().MemoryKb();
      const auto start = std::chrono::steady_clock::now();
      const auto answers = SendAtOnce(options, served.http_port(),
                                      certificates.ca().ca, body, token);
      const Seconds took = std::chrono::steady_clock::now() - start;
      const long peak = served.process().PeakMemoryKb();
      // Memory is given back soon after.
      WaitUntil([&] { return served.process().MemoryKb() <= before + 64'000; },
                std::chrono::seconds(10));
      Record(options, {{"row", "200 bodies of 4 MiB"},
                       {"database", options.database},
                       {"tls", options.tls},
                       {"body", body.name},
                       {"known", !token.empty() || !options.tls},
                       {"seconds", took.count()},
                       {"before_mb", before / 1000},
                       {"peak_mb", peak / 1000},
                       {"after_mb", served.process().MemoryKb() / 1000},
                       {"answers", answers},
                       {"load_average", LoadAverage()}});
    }
  }
}

// Reports of one point to a batch of which so many are stored: its row is
// written anew each time (docs/adr/0049).
void StoredPointsRow(const Options& options) {
  Served served(options.database);
  AddTasks(served.database_url(), 1);
  served.Start();
  Register(served, Registration("agent", 0));
  const v1::LeaseTasksResponse leased = Lease(served, "agent", 1);
  const v1::Task& task = leased.tasks(0);
  v1::ReportTaskRequest report = ReportOf("agent", task);
  report.set_partial(true);
  RpcLoad load(served.address(), 1);
  for (const int stored : {1, 12, 100, 1000}) {
    v1::ReportTaskRequest all = report;
    for (const auto& point : Points(task.problem(), task.batch(), stored)) {
      *all.add_measurements() = point;
    }
    grpc::ClientContext context;
    v1::ReportTaskResponse response;
    Check(served.agents().ReportTask(&context, all, &response));
    v1::ReportTaskRequest one = report;
    *one.add_measurements() = all.measurements(0);
    Row(served, fmt::format("a report of 1 point, {} stored", stored), [&] {
      return load.Closed(std::string(kAgents) + "ReportTask", Always(one), 1,
                         Seconds(options.seconds));
    });
  }
}

// Agents at the default pace; then the coordinator is killed and starts again.
void Agents(const Options& options) {
  AllowDescriptors();
  const Certificates certificates;
  FakeAgentsOptions fakes;
  fakes.agents = options.agents;
  fakes.connections =
      options.connections > 0 ? options.connections : options.agents;
  std::vector<std::string> guard;
  std::optional<AgentCertificates> shown;
  if (options.tls) {
    if (fakes.connections != fakes.agents) {
      Die("over TLS each agent has a connection of its own");
    }
    std::vector<std::string> names;
    for (int i = 0; i < options.agents; ++i) names.push_back(FakeAgentName(i));
    shown.emplace(certificates, names);
    fakes.tls = [&](std::size_t i) { return shown->Connect(i); };
    guard = GuardArguments(certificates);
  }
  Served served(options.database, options.cpus);
  served.Start(guard);
  FakeAgents agents(served.grpc_port(), fakes);
  std::optional<std::chrono::steady_clock::time_point> killed;
  const auto own_cpu = [] {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  };
  const auto live = [&](const std::string& name, Seconds time,
                        const std::function<bool()>& enough = {}) {
    const auto start = std::chrono::steady_clock::now();
    const Seconds cpu = served.process().CpuTime();
    const double load_cpu = own_cpu();
    agents.Run(time, enough);
    const Seconds took = std::chrono::steady_clock::now() - start;
    const Seconds used = served.process().CpuTime() - cpu;
    const Seconds since_kill =
        killed ? std::chrono::steady_clock::now() - *killed : Seconds(0);
    const std::int64_t heard = agents.heard();
    const FakeAgents::Counts counts = agents.Take();
    Record(options, {{"row", fmt::format("agents {}", name)},
                     {"database", options.database},
                     {"tls", options.tls},
                     {"agents", options.agents},
                     {"connections", fakes.connections},
                     {"answered", heard},
                     {"seconds", took.count()},
                     {"seconds_since_kill", since_kill.count()},
                     {"registered", counts.registered},
                     {"lost_so_far", served.CountInLog("event=agent_gone")},
                     {"memory_mb", served.process().MemoryKb() / 1000},
                     {"peak_mb", served.process().PeakMemoryKb() / 1000},
                     {"coordinator_cores", used / took},
                     {"load_cores", (own_cpu() - load_cpu) / took.count()},
                     {"heartbeats", ToJson(counts.heartbeats, took)},
                     {"polls", ToJson(counts.polls, took)},
                     {"load_average", LoadAverage()}});
  };
  const auto all = [&] { return agents.heard() == options.agents; };
  live("coming online", Seconds(120), all);
  live("online", Seconds(options.seconds));
  served.process().Kill();
  killed = std::chrono::steady_clock::now();
  agents.Run(Seconds(2));
  agents.Take();
  served.Start(guard);
  live("after kill -9", Seconds(120), all);
  live("online again", Seconds(options.seconds));
}

int Main(int argc, char** argv) {
  const std::map<std::string, std::function<void(const Options&)>> rows = {
      {"again", SamePlan},         {"agents", Agents},
      {"bodies", Bodies},          {"lists", Lists},
      {"memory", MemoryPlans},     {"metrics", Scrapes},
      {"new", NewPlans},           {"plans", StoredPlans},
      {"points", StoredPointsRow}, {"polls", Polls},
      {"questions", Questions},    {"reports", Reports}};
  // Servers may end connections while we write.
  std::signal(SIGPIPE, SIG_IGN);
  Options options;
  CLI::App app("Measures what the coordinator serves.");
  app.add_option("--database", options.database)
      ->check(CLI::IsMember({"sqlite", "postgres"}));
  app.add_option("--seconds", options.seconds, "How long each row takes");
  app.add_option("--tasks", options.tasks, "How many tasks are stored");
  app.add_option("--agents", options.agents, "How many agents there are");
  app.add_option("--connections", options.connections,
                 "Of the agents; default: one each");
  app.add_flag("--tls", options.tls, "Of the agents and the bodies");
  app.add_option("--coordinator-cpus", options.cpus,
                 "The processors of the agents' and bodies' coordinator");
  app.add_option("--json", options.json,
                 "A file that gets a line for each row of agents and bodies");
  app.add_option(
      "--cross-checked", options.cross_checked,
      "How many devices measured the cross-checks of the polls' kind");
  app.add_option("row", options.rows)->required();
  CLI11_PARSE(app, argc, argv);
  for (const std::string& row : options.rows) {
    const auto found = rows.find(row);
    if (found == rows.end()) {
      fmt::print(stderr, "there is no row {}\n", row);
      return 2;
    }
    found->second(options);
  }
  return 0;
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) { return ucudnn::test::Main(argc, argv); }
