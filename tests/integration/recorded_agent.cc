// An agent like ucudnn-agent whose device replays a recorded profile, with some
// noise and slowed down by a given factor:
//
//   recorded_agent --coordinator HOST:PORT,... --id ID --profile FILE
//       --network FILE [--slower 1.25] [--noise 0.01] [--units 1] [--real-time]
//
// With --real-time, each run takes as long as it did when it was recorded.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "base/onnx/network_file.h"
#include "base/service/log.h"
#include "base/service/signals.h"
#include "tests/support/recorded_device.h"

namespace ucudnn {
namespace {

struct Options {
  std::vector<std::string> coordinators;
  std::string id;
  std::string profile;
  std::string network;
  double slower = 1;
  double noise = 0;
  std::int64_t units = 1;  // of the kind
  bool real_time = false;
};

// A recorded device with its own id.
class Replay final : public Device {
 public:
  Replay(std::unique_ptr<Device> recorded, const Options& options)
      : recorded_(std::move(recorded)),
        options_(options),
        random_(static_cast<unsigned>(std::hash<std::string>{}(options.id))) {
    info_ = recorded_->info();
    info_.id = "recorded-" + options.id;
    info_.kind = {"Recorded device", options.units, 1_GiB, "recorded-1.0"};
  }
  const DeviceInfo& info() const override { return info_; }
  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem& problem,
                                                BatchSize batch) override {
    return recorded_->ListAlgorithms(problem, batch);
  }
  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) override {
    return recorded_->Prepare(problem, batch, algorithm);
  }
  // Nothing is computed, so nothing is stored.
  Result<DeviceBuffer> Allocate(Bytes size) override {
    return DeviceBuffer(this, size, [](void*) {});
  }
  Status Upload(void*, const void*, Bytes) override { return {}; }
  Status Download(void*, const void*, Bytes) override { return {}; }
  Status Fill(void*, unsigned char, Bytes) override { return {}; }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds recorded, recorded_->Time(work));
    std::normal_distribution<> noise(0, options_.noise);
    const Nanoseconds time(
        static_cast<std::int64_t>(static_cast<double>(recorded.count()) *
                                  options_.slower * (1 + noise(random_))));
    if (options_.real_time) std::this_thread::sleep_for(time);
    return time;
  }
  Status Synchronize() override { return {}; }

 private:
  std::unique_ptr<Device> recorded_;
  const Options& options_;
  std::mt19937 random_;
  DeviceInfo info_;
};

Status Run(const Options& options) {
  const StopSignals signals;
  StartLog("recorded_agent", "info");
  UCUDNN_ASSIGN_OR_RETURN(const Profile profile,
                          ReadProfileFile(options.profile));
  if (profile.kernels.empty()) {
    return Fail(Code::kInvalidArgument, "{} is empty", options.profile);
  }
  UCUDNN_ASSIGN_OR_RETURN(Network network,
                          ReadNetworkFile(options.network, BatchSize(1)));
  network.name = profile.kernels.front().id.network;
  UCUDNN_ASSIGN_OR_RETURN(auto recorded,
                          OpenRecordedDevice(profile, network, ""));
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<Replay>(std::move(recorded), options));
  MeasureBench bench(*devices.front());
  const Measurer measure = [&](Device& device, const CampaignTask& task,
                               const std::stop_token& stop,
                               const PointsSink& sink) {
    return RunCampaign(device, bench, task, MeasureOptions(), stop, {}, sink);
  };
  AgentOptions agent;
  agent.id = options.id;
  agent.host = "recorded";
  UCUDNN_ASSIGN_OR_RETURN(
      const std::unique_ptr<Link> link,
      MakeGrpcLink(
          options.coordinators,
          CredentialsFrom(
              [](const std::string& name) -> std::optional<std::string> {
                const char* value = std::getenv(name.c_str());
                if (value == nullptr) return std::nullopt;
                return value;
              })));
  Status status;
  {
    std::jthread thread([&](std::stop_token stop) {
      status = RunAgent(agent, *link, devices, measure, std::move(stop));
    });
    while (!signals.Wait(std::chrono::milliseconds(200))) {
    }
  }
  return status;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Replays a recorded profile for a coordinator.");
  app.add_option("--coordinator", options.coordinators)
      ->delimiter(',')
      ->required();
  app.add_option("--id", options.id)->required();
  app.add_option("--profile", options.profile)->required();
  app.add_option("--network", options.network)->required();
  app.add_option("--slower", options.slower);
  app.add_option("--noise", options.noise);
  app.add_option("--units", options.units);
  app.add_flag("--real-time", options.real_time);
  CLI11_PARSE(app, argc, argv);
  const Status status = Run(options);
  if (status) return 0;
  std::fprintf(stderr, "recorded_agent: %s\n", status.error().message.c_str());
  return 1;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
