// The agent's daemon: opens this node's devices and works for a coordinator
// until it is asked to stop.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "agent/agent.h"
#include "agent/identity.h"
#include "base/service/address.h"
#include "base/service/completion.h"
#include "base/service/config_file.h"
#include "base/service/credentials.h"
#include "base/service/environment.h"
#include "base/service/help.h"
#include "base/service/host.h"
#include "base/service/log.h"
#include "base/service/signals.h"
#include "base/service/supervisor.h"
#include "device/measure/device_model.h"
#include "device/measure/measure.h"
#include "device/open_devices.h"
#include "device/operators/open.h"
#include "device/training/other_tasks.h"

namespace ucudnn {
namespace {

struct Options {
  std::vector<std::string> coordinators = {"127.0.0.1:7460"};
  std::string log_level = "info";
  std::vector<std::string> slices;
  CredentialFiles credentials;
  DeviceOptions devices;
  AgentOptions agent;
  MeasureOptions measure;
};

// Logs why an algorithm has no measurement.
void LogDropped(const Candidate& candidate,
                const Result<MeasuredPoint>& point) {
  if (point) return;
  const Code code = point.error().code;
  const bool as_meant =
      code == Code::kDeadlineExceeded || code == Code::kResourceExhausted;
  spdlog::log(as_meant ? spdlog::level::debug : spdlog::level::warn,
              "event=dropped algorithm={} workspace_bytes={} why={}",
              candidate.algorithm.name, candidate.workspace.count(),
              Quoted(point.error().message));
}

// How long a device is kept busy in each precision to see what it sustains.
constexpr std::chrono::seconds kLoad{2};

// Opens the devices and works on them until it is asked to stop.
Status Work(Options options, const std::stop_token& asked_to_stop,
            Supervisor& supervisor) {
  StartLog("ucudnn-agent", options.log_level);
  // Agents with different slices of one host are different agents.
  std::string& id = options.agent.id;
  const bool suggestion = id.empty();
  if (suggestion) {
    id = options.agent.host;
    for (const std::string& slice : options.slices) id += "-" + slice;
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const Identity identity,
      Identity::Take(id, suggestion,
                     fmt::format("{}", fmt::join(options.coordinators, ","))));
  id = identity.id();
  DeviceOptions asked = options.devices;
  for (const std::string& slice : options.slices) {
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t sms, ParseGpuSlice(slice));
    asked.gpu_slices.push_back(sms);
  }
  asked.cpu_name = id;
  auto& left_out = options.agent.left_out;
  asked.on_gpu_failure = [&](DeviceInfo gpu, const Error& error) {
    if (gpu.id.empty()) gpu.id = fmt::format("gpu-{}-{}", id, left_out.size());
    spdlog::error("event=gpu_left_out id={} kind={} why={}", gpu.id,
                  Quoted(ToString(gpu.kind)), Quoted(error.message));
    // Slices of a GPU fail one by one.
    const auto is_it = [&](const auto& known) {
      return known.first.id == gpu.id;
    };
    if (std::ranges::none_of(left_out, is_it)) {
      left_out.emplace_back(std::move(gpu), error.message);
    }
  };
  UCUDNN_ASSIGN_OR_RETURN(auto devices, OpenDevices(asked));
  for (const auto& device : devices) {
    spdlog::info("event=device id={} kind={} driver={}", device->info().id,
                 Quoted(ToString(device->info().kind)),
                 Quoted(device->info().driver));
    if (const Status watched = CheckProcesses(device->info()); !watched) {
      spdlog::warn("event=gpu_not_watched id={} why={}", device->info().id,
                   Quoted(watched.error().message +
                          "; it is not known whether "
                          "other processes compute on it, nor its clocks and "
                          "power cap: it is measured all the same"));
    }
  }
  // Looked up by id, since callbacks receive only a DeviceInfo.
  std::map<std::string, std::string> methods;
  for (const auto& device : devices) {
    methods[device->info().id] = MethodText(*device, options.measure);
  }
  options.agent.conditions = [&methods](const DeviceInfo& device) {
    const std::string& method = methods.at(device.id);
    return ConditionsOf(device) + (method.empty() ? "" : ", ") + method;
  };
  options.agent.measure_model = [](Device& device,
                                   const std::stop_token& stop) {
    DeviceModelOptions model;
    if (ClocksOf(device.info()).sm_mhz > 0) model.load = kLoad;
    return MeasureDeviceModel(device, model, stop);
  };
  // Opened by a device's thread when it first needs them.
  std::map<const Device*, std::unique_ptr<Operators>> operators;
  for (const auto& device : devices) operators[device.get()] = nullptr;
  options.agent.measure_tasks =
      [&operators](
          Device& device, const OtherTasksCampaign& campaign,
          const std::stop_token& stop) -> Result<std::vector<MeasuredPoint>> {
    std::unique_ptr<Operators>& opened = operators.at(&device);
    if (opened == nullptr) {
      UCUDNN_ASSIGN_OR_RETURN(opened, OpenOperators(device));
    }
    return MeasureOtherTasks(device, *opened, campaign, stop);
  };
  options.agent.alive = [&supervisor] { supervisor.Alive(); };
  UCUDNN_ASSIGN_OR_RETURN(
      const std::unique_ptr<Link> link,
      MakeGrpcLink(options.coordinators, options.credentials));
  // Each device's thread keeps its device buffers from one task to the next.
  std::map<const Device*, MeasureBench> benches;
  for (const auto& device : devices) benches.try_emplace(device.get(), *device);
  const Measurer measure = [&](Device& device, const CampaignTask& task,
                               const std::stop_token& stop,
                               const PointsSink& sink) {
    return RunCampaign(device, benches.at(&device), task, options.measure, stop,
                       LogDropped, sink);
  };
  if (!devices.empty()) supervisor.Ready();
  return RunAgent(options.agent, *link, devices, measure, asked_to_stop);
}

// The process ends at most this long after a signal.
constexpr std::chrono::milliseconds kStopWithin{4'000};

Status Run(Options options) {
  const StopSignals signals;
  Supervisor supervisor(ProcessEnvironment());
  std::promise<Status> promise;
  std::future<Status> status = promise.get_future();
  std::jthread worker([&](const std::stop_token& stop) {
    promise.set_value(Work(std::move(options), stop, supervisor));
  });
  const auto ended = [&](std::chrono::milliseconds within) {
    return status.wait_for(within) == std::future_status::ready;
  };
  while (!ended(std::chrono::milliseconds(0)) &&
         !signals.Wait(std::chrono::milliseconds(200))) {
  }
  supervisor.Stopping();
  spdlog::info("event=stopping");
  worker.request_stop();
  if (!ended(kStopWithin)) {
    // A run that we cannot interrupt ends with the process; its lease has been
    // given back or expires (docs/adr/0020).
    spdlog::warn("event=run_abandoned");
    spdlog::default_logger()->flush();
    std::_Exit(0);
  }
  return status.get();
}

// The command line, which sets `options`.
struct CommandLine {
  CommandLine();

  Options options;
  std::string config;
  CLI::App app{
      "Measures convolutions, and the other tasks of training, on this node's "
      "devices for a coordinator."};
  CLI::App* daemon = &app;
};

CommandLine::CommandLine() {
  options.agent.host = HostName();
  options.agent.machine_id = MachineId();
  options.agent.version = UCUDNN_VERSION;
  options.agent.clocks = ClocksOf;
  app.name("ucudnn-agent");
  app.set_version_flag("--version", UCUDNN_VERSION);
  ShowDefaults(app);
  AddConfigOption(&app, &config);
  app.add_option("--coordinator", options.coordinators,
                 "The coordinators to work for, in order of preference")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& text) {
            return IsHostAndPort(text)
                       ? std::string()
                       : "host:port, such as localhost:7460, is accepted";
          },
          "HOST:PORT"))
      ->option_text("HOST:PORT[,...]")
      ->envname("UCUDNN_COORDINATOR");
  app.add_option(
         "--id", options.agent.id,
         "This agent's name, unlike any other agent's; by default the host's "
         "name, with a number if that is taken")
      ->option_text("NAME");
  AddCredentialOptions(&app, &options.credentials);
  app.add_option("--gpus", options.devices.gpu_ordinals,
                 "Offer only these GPUs, counted from 0")
      ->delimiter(',')
      ->option_text("N[,...]");
  app.add_option(
         "--slice", options.slices,
         "Offer slices of each GPU instead of whole GPUs, such as "
         "sm=32; each size is its own kind of device, measured in turns")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& text) {
            const auto sms = ParseGpuSlice(text);
            return sms ? std::string() : sms.error().message;
          },
          "SLICE"))
      ->option_text("sm=N[,...]")
      ->envname("UCUDNN_SLICE");
  options.devices.branches = true;
  app.add_flag(
      "!--no-branches", options.devices.branches,
      "Do not measure algorithms on both halves of the images at once");
  app.add_option("--cpu-devices", options.devices.cpu_devices,
                 "Offer the CPU as this many devices if there is no GPU")
      ->check(CLI::Range(0, 1024));
  app.add_option("--cpu-threads", options.devices.cpu_threads,
                 "Threads of each CPU device; 0: an even share of the cores")
      ->check(CLI::Range(0, 4096));
  app.add_option("--repeats", options.measure.max_repeats,
                 "Measure each algorithm at most this many times")
      ->check(CLI::Range(options.measure.min_repeats, 10'000));
  app.add_option("--log-level", options.log_level, "How much to log")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
}

int Main(int argc, char** argv) {
  return RunDaemon<CommandLine>(argc, argv, [](CommandLine& line) {
    return Run(std::move(line.options));
  });
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
