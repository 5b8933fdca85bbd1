// Rehearses a training job: its ranks agree on a plan, run one iteration's
// convolutions as planned on random data, check them against undivided ones,
// and compare the time with the prediction.
//
//   mpirun -n 2 --bind-to none ucudnn-rehearse --coordinator localhost:7460
//       --network vgg16 --batch 64 --workspace-limit 64MiB --check

#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/service/help.h"
#include "client/cli/command.h"
#include "client/cli/profile_options.h"
#include "client/cli/ranks_main.h"
#include "client/ranks/ranks.h"
#include "client/rehearse/rehearsal.h"
#include "client/rehearse/report.h"

namespace ucudnn::rehearse {
namespace {

// Command-line arguments before validation.
struct Arguments {
  Options options;
  std::int64_t batch = 0;
  Bytes workspace_limit{-1};
  Bytes total_workspace{-1};
  std::string precision = "FP32";
  std::string layout = "NCHW";
  int wait_seconds = 0;
  ctl::OutputFormat output = ctl::OutputFormat::kTable;
};

void AddOptions(CLI::App& app, Arguments* args) {
  app.add_option("--coordinator", args->options.coordinator,
                 "Coordinators to call; default: UCUDNN_COORDINATOR")
      ->option_text("HOST:PORT[,...]");
  app.add_option("--network", args->options.network,
                 "The network's name; default: the one in the file")
      ->option_text("NETWORK");
  app.add_option("--network-file", args->options.network_file,
                 "Register this network first: convolutions as CSV, or ONNX")
      ->option_text("FILE");
  app.add_option("--batch", args->batch, "The mini-batch size, over all ranks")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, kMaxBatchSize.count()));
  ctl::AddBytesOption(&app, "--workspace-limit", &args->workspace_limit,
                      "Workspace limit for each kernel, such as 64MiB");
  ctl::AddBytesOption(&app, "--total-workspace", &args->total_workspace,
                      "Workspace limit for all kernels together");
  ctl::AddBytesOption(&app, "--graph-memory", &args->options.graph_memory,
                      "Device memory for replaying the plan as a graph, 64MiB "
                      "unless given; 0 enqueues it");
  ctl::AddBatchPolicyOption(
      &app, "--policy,--batch-policy", "UCUDNN_BATCH_SIZE_POLICY or powerOfTwo",
      [&session = args->options.session](BatchPolicy policy) {
        session.policy = policy;
      });
  ctl::AcceptNames(app.add_option("--precision", args->precision,
                                  "The precision to plan for"),
                   ctl::NamesOf(kPrecisions));
  ctl::AcceptNames(
      app.add_option("--layout", args->layout, "The layout to plan for"),
      ctl::NamesOf(kLayouts));
  app.add_option("--wait", args->wait_seconds,
                 "How long to wait for measurements that the plan needs")
      ->option_text("SECONDS")
      ->check(CLI::Range(0, 86'400));
  app.add_option("--iterations", args->options.iterations,
                 "Iterations to measure, after a warm-up")
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--check", args->options.check,
               "Compare every kernel's result with the undivided one");
  app.add_option("--tolerance", args->options.tolerance,
                 "Relative error that --check accepts; by precision unless "
                 "given")
      ->check(CLI::PositiveNumber)
      ->default_str("");
  app.add_flag("--compare-undivided", args->options.compare_undivided,
               "Also measure the fastest undivided algorithms");
  app.add_option("--cpu-devices", args->options.cpu_devices,
                 "Without a GPU: parts of each node's CPU; default: one for "
                 "each of its ranks")
      ->check(CLI::Range(1, 1024))
      ->default_str("");
  app.add_option("--threads", args->options.threads,
                 "Threads of each part; default: an even share of the cores")
      ->check(CLI::Range(1, 4096))
      ->default_str("");
  ctl::AddOutputOption(&app, &args->output);
}

Status Finish(Arguments* args) {
  if (args->options.network.empty() && args->options.network_file.empty()) {
    return Fail(Code::kInvalidArgument,
                "neither --network nor --network-file is given");
  }
  if (args->options.network.empty()) {
    const std::string file =
        std::filesystem::path(args->options.network_file).filename();
    args->options.network = file.substr(0, file.find('.'));
  }
  SessionOptions& session = args->options.session;
  session.network.name = args->options.network;
  session.batch = BatchSize(args->batch);
  UCUDNN_ASSIGN_OR_RETURN(session.precision, ParsePrecision(args->precision));
  UCUDNN_ASSIGN_OR_RETURN(session.layout, ParseLayout(args->layout));
  if (args->workspace_limit >= Bytes(0)) {
    session.workspace_limit = args->workspace_limit;
  }
  if (args->total_workspace >= Bytes(0)) {
    session.total_workspace = args->total_workspace;
  }
  if (!args->options.coordinator.empty()) {
    session.coordinators = args->options.coordinator;
  }
  session.await_measurements = std::chrono::seconds(args->wait_seconds);
  return {};
}

Status RunAll(const Arguments& args) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto ranks,
      Ranks::Duplicate(MPI_COMM_WORLD, std::chrono::steady_clock::now() +
                                           std::chrono::minutes(1)));
  UCUDNN_ASSIGN_OR_RETURN(const Report report, Rehearse(*ranks, args.options));
  const Total total = TotalOf(report);
  Status printed;
  if (ranks->rank() == 0) {
    printed = ctl::Print(args.output, ToJson(report),
                         [&] { return ToTable(report); });
  }
  UCUDNN_RETURN_IF_ERROR(Together(*ranks, printed));
  if (total.passed) return {};
  return Fail(Code::kDataLoss,
              "a kernel's result differs from the undivided one by more than "
              "{:.1e} (or 30 times that for Winograd beyond 3x3)",
              report.tolerance);
}

// An interrupted rehearsal leaves nothing half done, since plans are cached
// atomically. mpirun ends the other ranks.
extern "C" void Interrupted(int signal) {
  constexpr std::string_view kText = "\nucudnn-rehearse: interrupted\n";
  static_cast<void>(!write(STDERR_FILENO, kText.data(), kText.size()));
  _exit(128 + signal);
}

int Main(int argc, char** argv) {
  Arguments args;
  CLI::App app(
      "Rehearses a training job on its MPI ranks: runs the planned "
      "convolutions of an\niteration, checks them and compares predicted with "
      "measured time.\n\n  mpirun -n 2 --bind-to none ucudnn-rehearse "
      "--network vgg16 --batch 64 --check");
  app.name("ucudnn-rehearse");
  app.set_version_flag("--version", UCUDNN_VERSION);
  ShowDefaults(app);
  AddOptions(app, &args);
  return ctl::RunOnRanks(app, argc, argv, [&]() -> Status {
    std::signal(SIGINT, Interrupted);
    std::signal(SIGTERM, Interrupted);
    UCUDNN_RETURN_IF_ERROR(Finish(&args));
    return RunAll(args);
  });
}

}  // namespace
}  // namespace ucudnn::rehearse

int main(int argc, char** argv) { return ucudnn::rehearse::Main(argc, argv); }
