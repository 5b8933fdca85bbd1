#include "tests/bench/service/served.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/device_kind.h"
#include "proto/convert.h"
#include "tests/support/paths.h"

namespace ucudnn::test {

void Die(const std::string& why) {
  fmt::print(stderr, "service_bench: {}\n", why);
  std::exit(1);
}

void Check(const grpc::Status& status) {
  if (!status.ok()) Die(status.error_message());
}

Served::Served(const std::string& database, std::string cpus)
    : cpus_(std::move(cpus)),
      database_url_("sqlite://" + (folder_ / "coordinator.db")) {
  if (database == "sqlite") return;
  auto postgres = ThrowawayPostgres::Start(ThrowawayPostgres::Disk::kDurable);
  if (!postgres) Die(postgres.error().message);
  postgres_ = *std::move(postgres);
  database_url_ = postgres_->url();
}

void Served::Start(const std::vector<std::string>& arguments) {
  const std::string ready = folder_ / "ready";
  std::filesystem::remove(ready);
  std::vector<std::string> command = {ProgramPath("ucudnn-coord"),
                                      "serve",
                                      "--listen",
                                      address(),
                                      "--http",
                                      fmt::format("127.0.0.1:{}", http_port_),
                                      "--database",
                                      database_url_,
                                      "--create",
                                      "--ready-file",
                                      ready};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (!cpus_.empty()) {
    command.insert(command.begin(), {"/usr/bin/taskset", "-c", cpus_});
  }
  process_ = Process(command, folder_ / "log");
  WaitUntil(
      [&] { return std::filesystem::exists(ready) || !process_.running(); });
  const auto ports = nlohmann::json::parse(FileText(ready), nullptr, false);
  if (ports.is_discarded()) Die(FileText(folder_ / "log"));
  grpc_port_ = ports["grpc_port"];
  http_port_ = ports["http_port"];
  grpc::ChannelArguments channel;
  channel.SetMaxReceiveMessageSize(-1);
  const auto connected = grpc::CreateCustomChannel(
      address(), grpc::InsecureChannelCredentials(), channel);
  coordinator_ = v1::CoordinatorService::NewStub(connected);
  agents_ = v1::AgentService::NewStub(connected);
}

std::int64_t Served::CountInLog(const std::string& text) const {
  const std::string log = FileText(folder_ / "log");
  std::int64_t count = 0;
  for (auto at = log.find(text); at != std::string::npos;
       at = log.find(text, at + text.size())) {
    ++count;
  }
  return count;
}

v1::DeviceKind KindDetails(int n) {
  return ucudnn::ToProto(DeviceKind{.model = fmt::format("Made-up GPU {}", n),
                                    .units = 132,
                                    .memory = Bytes(std::int64_t{80} << 30),
                                    .library = "test 1.0"});
}

std::string KindName(int n) {
  return ToString(ucudnn::FromProto(KindDetails(n)));
}

v1::RegisterRequest Registration(const std::string& id, int n) {
  v1::RegisterRequest request;
  request.set_agent_id(id);
  request.set_host("bench");
  request.set_version("0");
  v1::Device& device = *request.add_devices();
  device.set_id(id);
  device.set_kind(KindName(n));
  *device.mutable_kind_details() = KindDetails(n);
  device.set_driver("1");
  device.set_state("idle");
  return request;
}

void Register(Served& served, const v1::RegisterRequest& request) {
  grpc::ClientContext context;
  v1::RegisterResponse response;
  Check(served.agents().Register(&context, request, &response));
}

std::vector<v1::Measurement> Points(const std::string& problem,
                                    std::int64_t batch, int count) {
  std::vector<v1::Measurement> points;
  // Some nanoseconds an image and a start; more workspace is faster.
  const auto cost = static_cast<std::int64_t>(
      1'000 + std::hash<std::string>()(problem) % 50'000);
  for (int i = 0; i < count; ++i) {
    v1::Measurement& m = points.emplace_back();
    m.set_batch(batch);
    m.set_algorithm(fmt::format("ALGORITHM_{}", i));
    m.set_precision("FP32");
    m.set_workspace_bytes(i * batch << 16);
    m.set_time_ns(20'000 + cost * batch * (count + 4) / (i + 4));
    m.set_spread_ns(m.time_ns() / 100);
    m.set_min_ns(m.time_ns());
    m.set_p90_ns(m.time_ns());
    m.set_repeats(5);
  }
  return points;
}

void PutDeviceModel(Served& served, int n, const DeviceModel& model) {
  v1::Profile profile;
  profile.set_id(KindName(n));
  *profile.mutable_device_model()->mutable_model() = ucudnn::ToProto(model);
  grpc::ClientContext context;
  v1::ProfileSummary summary;
  Check(served.coordinator().PutProfile(&context, profile, &summary));
}

void PutNetwork(Served& served, const std::string& name,
                const std::string& file) {
  v1::PutNetworkRequest request;
  request.set_name(name);
  request.set_content(
      FileText(DataPath(file.empty() ? "networks/" + name + ".csv" : file)));
  grpc::ClientContext context;
  v1::Network network;
  Check(served.coordinator().PutNetwork(&context, request, &network));
}

v1::Plan PlanWithMeasurements(Served& served, const v1::PlanRequest& request) {
  for (int n = 0; n < 3; ++n) {
    Register(served, Registration(fmt::format("of-kind-{}", n), n));
  }
  v1::MeasureRequest measure;
  *measure.mutable_plan() = request;
  measure.set_wait_for_device(true);
  while (true) {
    grpc::ClientContext measuring;
    v1::MeasureProgress progress;
    Check(served.coordinator().Measure(&measuring, measure, &progress));
    grpc::ClientContext planning;
    v1::Plan plan;
    const grpc::Status planned =
        served.coordinator().CreatePlan(&planning, request, &plan);
    if (planned.error_code() != grpc::StatusCode::ABORTED) {
      Check(planned);
      return plan;
    }
    std::map<std::string, v1::Profile> profiles;
    v1::ListRequest list;
    list.set_state("pending");
    list.set_limit(1000);
    while (true) {
      grpc::ClientContext listing;
      v1::ListTasksResponse tasks;
      Check(served.coordinator().ListTasks(&listing, list, &tasks));
      if (tasks.tasks().empty()) break;
      for (const v1::QueuedTask& task : tasks.tasks()) {
        list.set_after(std::to_string(task.id()));
        v1::Profile& profile = profiles[task.kind()];
        profile.set_id(task.kind());
        v1::ProblemProfile& problem = *profile.add_problems();
        problem.set_problem(task.problem());
        for (const auto& point : Points(task.problem(), task.batch(), 8)) {
          *problem.add_measurements() = point;
        }
        v1::CompleteBatch& complete = *problem.add_complete();
        complete.set_batch(task.batch());
        complete.set_max_workspace_bytes(task.max_workspace_bytes());
      }
    }
    for (const auto& [kind, profile] : profiles) {
      grpc::ClientContext context;
      v1::ProfileSummary summary;
      Check(served.coordinator().PutProfile(&context, profile, &summary));
    }
  }
}

}  // namespace ucudnn::test
