// What the coordinator serves: service_bench [--database sqlite|postgres]
// [--seconds N] ROW...
//
// Each row prints calls a second, latencies, the coordinator's CPU time a call
// and the load average. The load runs on the same cores.

#include <fmt/format.h>
#include <httplib.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
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
#include "tests/bench/service/fake_agents.h"
#include "tests/bench/service/load.h"
#include "tests/bench/service/served.h"
#include "tests/support/certificates.h"

namespace ucudnn::test {
namespace {

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

// Prints what became of the agents' calls.
void AgentRows(Served& served, const FakeAgents::Counts& counts,
               std::chrono::milliseconds cpu, Seconds took) {
  double load_average[1] = {0};
  getloadavg(load_average, 1);
  for (const auto& [name, calls] :
       {std::pair{"  heartbeats", &counts.heartbeats},
        std::pair{"  polls", &counts.polls}}) {
    fmt::print("{:<44} {:>9.1f} /s  p50 {:>8.2f} ms  p99 {:>8.2f} ms{}\n", name,
               static_cast<double>(calls->calls) / took.count(),
               calls->Quantile(0.5), calls->Quantile(0.99),
               calls->failed == 0
                   ? ""
                   : fmt::format("  FAILED {} of {}: {}", calls->failed,
                                 calls->calls, calls->first_error));
  }
  fmt::print(
      "  registered {}, taken for gone so far {}, CPU {:.2f} cores, {} MB at "
      "most, load {:.1f}\n",
      counts.registered, served.CountInLog("event=agent_gone"),
      static_cast<double>(cpu.count()) / 1000 / took.count(),
      served.process().PeakMemoryKb() / 1000, load_average[0]);
  std::fflush(stdout);
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

// Bodies of 4 MiB from clients that nobody knows, all at once.
void Bodies(const Options& options) {
  constexpr int kBodies = 200;
  constexpr std::size_t kBytes = 4 << 20;
  AllowDescriptors();
  const Certificates certificates;
  Served served(options.database);
  std::vector<std::string> guard = GuardArguments(certificates);
  if (!options.tls) guard.clear();
  served.Start(guard);
  const std::string ca = certificates.ca().ca;
  const std::string body = "{\"network\":\"" + std::string(kBytes, 'n') + "\"}";
  const long before = served.process().MemoryKb();
  std::vector<int> statuses(kBodies);
  {
    std::vector<std::jthread> threads;
    for (int& status : statuses) {
      threads.emplace_back([&] {
        httplib::Client http(fmt::format("{}://127.0.0.1:{}",
                                         options.tls ? "https" : "http",
                                         served.http_port()));
        http.set_ca_cert_path(ca.c_str());
        http.set_read_timeout(std::chrono::seconds(60));
        const auto answer = http.Post("/v1/plans", body, "application/json");
        status = answer ? answer->status : 0;
      });
    }
  }
  std::map<int, int> counts;
  for (const int status : statuses) ++counts[status];
  fmt::print("{} bodies of {} MiB at once: {} MB before, {} MB at most, ",
             kBodies, kBytes >> 20, before / 1000,
             served.process().PeakMemoryKb() / 1000);
  // Memory is given back soon after.
  WaitUntil([&] { return served.process().MemoryKb() <= before + 64'000; });
  fmt::print("{} MB after\n", served.process().MemoryKb() / 1000);
  for (const auto& [status, count] : counts) {
    fmt::print(
        "  {} answered {}\n", count,
        status == 0 ? "by closing the connection" : std::to_string(status));
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
  Certificates certificates;
  FakeAgentsOptions fakes;
  fakes.agents = options.agents;
  fakes.connections =
      options.connections > 0 ? options.connections : options.agents;
  std::vector<std::string> guard;
  if (options.tls) {
    std::vector<std::string> names;
    for (int i = 0; i < options.agents; ++i) names.push_back(FakeAgentName(i));
    fakes.tokens = certificates.AddTokens(Role::kAgent, names);
    fakes.ca = FileText(certificates.ca().ca);
    guard = GuardArguments(certificates);
  }
  Served served(options.database);
  served.Start(guard);
  FakeAgents agents(served.address(), fakes);
  const auto live = [&](const std::string& name, Seconds time,
                        const std::function<bool()>& enough = {}) {
    const auto start = std::chrono::steady_clock::now();
    const auto cpu = served.process().CpuTime();
    agents.Run(time, enough);
    const Seconds took = std::chrono::steady_clock::now() - start;
    fmt::print("{} agents, {}: {} answered, {:.1f} s\n", options.agents, name,
               agents.heard(), took.count());
    AgentRows(served, agents.Take(), served.process().CpuTime() - cpu, took);
  };
  const auto all = [&] { return agents.heard() == options.agents; };
  live("coming online", Seconds(120), all);
  live("online", Seconds(options.seconds));
  served.process().Kill();
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
