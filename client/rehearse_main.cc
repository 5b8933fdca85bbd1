// Rehearses a training job: its ranks agree on a plan, run the planned
// convolutions of an iteration on random data, check them against the
// undivided ones and compare the time with what was predicted.
//
//   mpirun -n 2 --bind-to none ucudnn-rehearse --coordinator localhost:7460
//       --network vgg16 --batch 64 --workspace-limit 64MiB --check

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/network_file.h"
#include "client/connection.h"
#include "client/ctl/command.h"
#include "client/ctl/progress.h"
#include "client/ranks.h"
#include "client/rehearse/report.h"
#include "client/rehearse/workload.h"
#include "client/session_config.h"
#include "device/registry.h"
#include "proto/convert.h"
#include "ucudnn/session.h"

namespace ucudnn::rehearse {
namespace {

// Longer than any rank computes between two meetings of the ranks.
constexpr std::chrono::minutes kMeeting{30};

struct Options {
  SessionOptions session;
  std::string coordinator;
  std::string network;
  std::string network_file;
  std::int64_t batch = 0;
  Bytes workspace_limit{-1};
  Bytes total_workspace{-1};
  std::string policy;
  std::string precision = "FP32";
  std::string layout = "NCHW";
  int wait_seconds = 0;
  int iterations = 10;
  bool check = false;
  double tolerance = 0;  // 0: the precision's
  bool compare_undivided = false;
  int cpu_devices = 0;  // 0: as many as ranks on the node
  int threads = 0;
  ctl::OutputFormat output = ctl::OutputFormat::kTable;
};

Ranks::Deadline Soon() { return std::chrono::steady_clock::now() + kMeeting; }

// All ranks go on, or all of them stop with the first error.
Status Together(Ranks& ranks, const Status& mine) {
  UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks.AllOf(mine, Soon()));
  return all;
}
template <class T>
Status Together(Ranks& ranks, const Result<T>& mine) {
  return Together(
      ranks, mine ? Status() : Status(tl::unexpected<Error>(mine.error())));
}

// One rank's rehearsal; every method is collective.
class Rehearsal {
 public:
  Rehearsal(Ranks& ranks, Options options)
      : ranks_(ranks),
        options_(std::move(options)),
        terminal_(isatty(STDERR_FILENO) != 0) {}

  // The report, on rank 0.
  Result<Report> Run() {
    UCUDNN_RETURN_IF_ERROR(Together(ranks_, FindPlace()));
    UCUDNN_RETURN_IF_ERROR(ReadNetwork());
    UCUDNN_RETURN_IF_ERROR(OpenDevice());
    Say("asking for a plan");
    UCUDNN_ASSIGN_OR_RETURN(
        session_, Session::Create(MPI_COMM_WORLD, options_.session, *device_));
    Say(session_->reason());
    UCUDNN_RETURN_IF_ERROR(Prepare());
    UCUDNN_RETURN_IF_ERROR(InTurns());
    return Gather();
  }

 private:
  void Say(const std::string& line) {
    if (ranks_.rank() == 0) std::fprintf(stderr, "%s\n", line.c_str());
  }
  Workload::Progress Showing(const std::string& what) {
    if (ranks_.rank() != 0) return {};
    auto progress = std::make_shared<ctl::Progress>(what, terminal_);
    return [progress](std::int64_t done, std::int64_t total) {
      progress->Show(done, total, "");
      if (done == total) progress->End();
    };
  }

  // Which of the ranks on this node it is.
  Status FindPlace() {
    MPI_Comm node = MPI_COMM_NULL;
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                            MPI_INFO_NULL, &node) != MPI_SUCCESS) {
      return Fail(Code::kUnavailable, "MPI_Comm_split_type failed");
    }
    MPI_Comm_rank(node, &local_rank_);
    MPI_Comm_size(node, &local_size_);
    MPI_Comm_free(&node);
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) == 0) {
      report_.host = host.data();
    }
    return {};
  }

  // Rank 0 reads the file or asks the coordinator; the others are told.
  Status ReadNetwork() {
    std::string layers;
    Status found;
    if (ranks_.rank() == 0) {
      auto message = NetworkMessage();
      if (message) {
        layers = message->SerializeAsString();
      } else {
        found = tl::unexpected<Error>(std::move(message).error());
      }
    }
    UCUDNN_RETURN_IF_ERROR(Together(ranks_, found));
    UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&layers, Soon()));
    v1::Network message;
    UCUDNN_CHECK(message.ParseFromString(layers));
    options_.session.network.name = message.name();
    for (const v1::Layer& layer : message.layers()) {
      UCUDNN_ASSIGN_OR_RETURN(ConvLayer l, FromProto(layer));
      options_.session.network.layers.push_back(std::move(l));
    }
    return {};
  }

  Result<v1::Network> NetworkMessage() {
    std::string coordinators = options_.coordinator;
    if (coordinators.empty()) {
      coordinators = ProcessEnvironment()("UCUDNN_COORDINATOR").value_or("");
    }
    std::unique_ptr<Connection> connection;
    if (!coordinators.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(connection,
                              Connection::Open(coordinators, "--coordinator"));
    }
    const RetryPolicy policy{.budget = options_.session.ask_within};
    v1::Network message;
    message.set_name(options_.network);
    if (options_.network_file.empty()) {
      if (connection == nullptr) return message;
      auto known = connection->GetNetwork(options_.network, policy);
      if (known) return known;
      if (known.error().code == Code::kNotFound) {
        return Fail(Code::kInvalidArgument,
                    "--network: coordinator {} does not know {}; give "
                    "--network-file to register it",
                    connection->name(), options_.network);
      }
      // A plan file or the cache may still have a plan.
      Say(known.error().message);
      return message;
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::string content,
                            ReadFile(options_.network_file, 1_GiB));
    UCUDNN_ASSIGN_OR_RETURN(const Network network,
                            ParseNetwork(content, options_.network,
                                         BatchSize(1), options_.network_file));
    for (const ConvLayer& layer : network.layers) {
      *message.add_layers() = ToProto(layer);
    }
    if (connection != nullptr) {
      v1::PutNetworkRequest put;
      put.set_name(options_.network);
      put.set_content(content);
      auto known = connection->PutNetwork(put, policy);
      if (!known && known.error().code == Code::kInvalidArgument) {
        return tl::unexpected<Error>(known.error());
      }
      if (!known) Say(known.error().message);
    }
    return message;
  }

  // GPUs by local rank, in turn; else this rank's part of the CPU.
  Status OpenDevice() {
    DeviceOptions devices;
    devices.cpu_devices = 0;
    // Only the first rank of a node opens all GPUs, to count them.
    std::string gpus = "0";
    std::vector<std::unique_ptr<Device>> opened;
    Status status;
    if (local_rank_ == 0) {
      auto all = OpenDevices(devices);
      if (all) {
        opened = *std::move(all);
      } else if (all.error().code != Code::kUnavailable) {
        status = tl::unexpected<Error>(std::move(all).error());
      }
      gpus = std::to_string(opened.size());
    }
    UCUDNN_RETURN_IF_ERROR(Together(ranks_, status));
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> hosts,
                            ranks_.AllGather(report_.host, Soon()));
    UCUDNN_ASSIGN_OR_RETURN(
        const std::vector<std::string> counts,
        ranks_.AllGather(local_rank_ == 0 ? gpus : "", Soon()));
    for (std::size_t r = 0; r < hosts.size(); ++r) {
      if (hosts[r] == report_.host && !counts[r].empty()) gpus = counts[r];
    }
    const int count = std::stoi(gpus);
    Result<std::vector<std::unique_ptr<Device>>> mine =
        std::vector<std::unique_ptr<Device>>();
    std::size_t index = 0;
    if (local_rank_ == 0 && count > 0) {
      *mine = std::move(opened);
    } else if (count > 0) {
      devices.gpu_ordinals = {local_rank_ % count};
      mine = OpenDevices(devices);
    } else {
      devices.gpus = false;
      devices.cpu_devices =
          options_.cpu_devices > 0 ? options_.cpu_devices : local_size_;
      devices.cpu_threads = options_.threads;
      index = static_cast<std::size_t>(local_rank_ % devices.cpu_devices);
      mine = OpenDevices(devices);
    }
    UCUDNN_RETURN_IF_ERROR(Together(ranks_, mine));
    device_ = std::move((*mine)[index]);
    return {};
  }

  Status Prepare() {
    const RankPlan& plan = session_->rank_plan();
    Result<std::unique_ptr<Workload>> workload =
        Workload::Create(*device_, plan.workspace);
    UCUDNN_RETURN_IF_ERROR(Together(ranks_, workload));
    workload_ = *std::move(workload);
    bool any = false;
    for (const RankPlan& rank : session_->plan().ranks) {
      any = any || !rank.workspace.kernels.empty();
    }
    if (any) return {};
    return Fail(Code::kUnavailable,
                "there is nothing to run: {}; --network-file would tell the "
                "layers",
                session_->reason());
  }

  // Ranks on one device go one after the other, all others at once.
  Status InTurns() {
    const std::vector<int>& sharing = session_->ranks_on_device();
    const auto mine = static_cast<std::size_t>(
        std::find(sharing.begin(), sharing.end(), ranks_.rank()) -
        sharing.begin());
    report_.in_turns = sharing.size() > 1;
    UCUDNN_ASSIGN_OR_RETURN(
        const std::vector<std::string> texts,
        ranks_.AllGather(std::to_string(sharing.size()), Soon()));
    std::size_t turns = 1;
    for (const std::string& text : texts) {
      turns = std::max<std::size_t>(turns, std::stoul(text));
    }
    if (turns > 1) Say("ranks share a device: they are measured in turns");
    for (std::size_t turn = 0; turn < turns; ++turn) {
      UCUDNN_RETURN_IF_ERROR(
          Together(ranks_, turn == mine ? Check() : Status()));
      UCUDNN_RETURN_IF_ERROR(
          Together(ranks_, turn == mine ? Measure() : Status()));
      if (!options_.compare_undivided) continue;
      UCUDNN_RETURN_IF_ERROR(
          Together(ranks_, turn == mine ? MeasureUndivided() : Status()));
    }
    return {};
  }

  bool Idle() const { return workload_->executor().size() == 0; }

  Status Check() {
    if (!options_.check || Idle()) return {};
    UCUDNN_ASSIGN_OR_RETURN(report_.errors,
                            workload_->Check(Showing("kernels checked")));
    return {};
  }

  Status Measure() {
    if (Idle()) return {};
    UCUDNN_ASSIGN_OR_RETURN(
        report_.measured,
        workload_->Measure(options_.iterations,
                           Showing("iterations of the plan")));
    return {};
  }

  Status MeasureUndivided() {
    if (Idle()) return {};
    auto timing = workload_->MeasureUndivided(options_.iterations,
                                              Showing("iterations undivided"));
    if (timing) {
      report_.undivided_measured = *timing;
    } else if (timing.error().code != Code::kFailedPrecondition) {
      return tl::unexpected<Error>(std::move(timing).error());
    }  // else nothing undivided fits into the limit
    return {};
  }

  Result<Report> Gather() {
    const RankPlan& plan = session_->rank_plan();
    report_.device_id = device_->info().id;
    report_.device_kind = ToString(device_->info().kind);
    report_.driver = device_->info().driver;
    report_.batch = plan.batch;
    report_.weight = plan.weight;
    const bool measured_before = plan.workspace.total_time > Nanoseconds(0);
    if (measured_before) report_.predicted = plan.workspace.total_time;
    if (measured_before) {
      report_.undivided_predicted = plan.workspace.undivided_time;
    }
    for (const auto& fallback : workload_->executor().fallbacks()) {
      const KernelPlan& kernel = workload_->executor().kernel(fallback.kernel);
      report_.fallbacks.push_back(
          fmt::format("{} {} ran undivided by {}: {}", kernel.layer,
                      Name(kernel.op), fallback.instead, fallback.why.message));
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                            ranks_.AllGather(Encode(report_), Soon()));
    Report report;
    report.network = options_.network;
    report.batch = options_.session.batch;
    report.plan_id = session_->plan().id;
    report.source = session_->source();
    report.reason = session_->reason();
    report.tolerance = options_.tolerance > 0
                           ? options_.tolerance
                           : Tolerance(options_.session.precision);
    for (const std::string& text : texts) {
      report.ranks.push_back(DecodeRankReport(text));
    }
    return report;
  }

  Ranks& ranks_;
  Options options_;
  bool terminal_;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Workload> workload_;
  RankReport report_;
};

void AddOptions(CLI::App& app, Options* options) {
  app.add_option("--coordinator", options->coordinator,
                 "The coordinators to ask; UCUDNN_COORDINATOR unless given")
      ->option_text("HOST:PORT[,...]");
  app.add_option("--network", options->network,
                 "The network's name; that of the file unless given")
      ->option_text("NAME");
  app.add_option("--network-file", options->network_file,
                 "Register this network first: CSV of convolutions, or ONNX")
      ->option_text("FILE");
  app.add_option("--batch", options->batch, "The mini-batch, over all ranks")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, kMaxBatchSize.count()));
  ctl::AddBytesOption(&app, "--workspace-limit", &options->workspace_limit,
                      "Workspace of each kernel, such as 64MiB");
  ctl::AddBytesOption(&app, "--total-workspace", &options->total_workspace,
                      "Workspace of all kernels together");
  app.add_option("--policy,--batch-policy", options->policy,
                 "Micro-batch sizes: powerOfTwo unless given")
      ->check(CLI::IsMember({"all", "powerOfTwo", "undivided"}));
  app.add_option("--precision", options->precision, "FP32 unless given")
      ->check(
          CLI::IsMember({"FP32", "TF32", "TRUE_HALF", "PSEUDO_HALF", "BF16"}));
  app.add_option("--layout", options->layout, "NCHW unless given")
      ->check(CLI::IsMember({"NCHW", "NHWC"}));
  app.add_option("--wait", options->wait_seconds,
                 "Wait so long for measurements that the plan needs")
      ->option_text("SECONDS")
      ->check(CLI::Range(0, 86'400));
  app.add_option("--iterations", options->iterations,
                 "Iterations to measure, after some to warm up")
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--check", options->check,
               "Compare every kernel's result with the undivided one");
  app.add_option("--tolerance", options->tolerance,
                 "Relative error that --check accepts; by precision unless "
                 "given")
      ->check(CLI::PositiveNumber);
  app.add_flag("--compare-undivided", options->compare_undivided,
               "Also measure the fastest undivided algorithms");
  app.add_option("--cpu-devices", options->cpu_devices,
                 "Without a GPU: parts of each node's CPU; as many as its "
                 "ranks unless given")
      ->check(CLI::Range(1, 1024));
  app.add_option("--threads", options->threads,
                 "Threads of each part; an even share of the cores unless "
                 "given")
      ->check(CLI::Range(1, 4096));
  ctl::AddOutputOption(&app, &options->output);
}

Status Finish(Options* options) {
  if (options->network.empty() && options->network_file.empty()) {
    return Fail(Code::kInvalidArgument,
                "neither --network nor --network-file is given");
  }
  if (options->network.empty()) {
    const std::string file =
        std::filesystem::path(options->network_file).filename();
    options->network = file.substr(0, file.find('.'));
  }
  SessionOptions& session = options->session;
  session.network.name = options->network;
  session.batch = BatchSize(options->batch);
  UCUDNN_ASSIGN_OR_RETURN(session.precision,
                          ParsePrecision(options->precision));
  UCUDNN_ASSIGN_OR_RETURN(session.layout, ParseLayout(options->layout));
  if (!options->policy.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(session.policy, ParseBatchPolicy(options->policy));
  }
  if (options->workspace_limit >= Bytes(0)) {
    session.workspace_limit = options->workspace_limit;
  }
  if (options->total_workspace >= Bytes(0)) {
    session.total_workspace = options->total_workspace;
  }
  if (!options->coordinator.empty()) {
    session.coordinators = options->coordinator;
  }
  session.await_measurements = std::chrono::seconds(options->wait_seconds);
  return {};
}

Status RunAll(const Options& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto ranks,
                          Ranks::Duplicate(MPI_COMM_WORLD, Soon()));
  Rehearsal rehearsal(*ranks, options);
  UCUDNN_ASSIGN_OR_RETURN(const Report report, rehearsal.Run());
  const Total total = TotalOf(report);
  Status printed;
  if (ranks->rank() == 0) {
    printed = ctl::Print(options.output, ToJson(report),
                         [&] { return ToTable(report); });
  }
  UCUDNN_RETURN_IF_ERROR(Together(*ranks, printed));
  if (total.passed) return {};
  return Fail(Code::kDataLoss,
              "a kernel's result differs from the undivided one by more than "
              "{:.1e} (or 30 times that for Winograd beyond 3x3)",
              report.tolerance);
}

// Nothing is left half done by a rehearsal that ends: plans are cached in one
// step. mpirun ends the other ranks.
extern "C" void Interrupted(int signal) {
  constexpr std::string_view kText = "\nucudnn-rehearse: interrupted\n";
  static_cast<void>(!write(STDERR_FILENO, kText.data(), kText.size()));
  _exit(128 + signal);
}

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Options options;
  CLI::App app(
      "Rehearses a training job on its MPI ranks: runs the planned "
      "convolutions of an\niteration, checks them and compares predicted with "
      "measured time.\n\n  mpirun -n 2 --bind-to none ucudnn-rehearse "
      "--network vgg16 --batch 64 --check");
  app.name("ucudnn-rehearse");
  app.set_version_flag("--version", UCUDNN_VERSION);
  AddOptions(app, &options);
  // All ranks have the same arguments; the first one speaks for them.
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = rank == 0 ? app.exit(error) : error.get_exit_code();
    MPI_Finalize();
    return status == 0 ? 0 : 2;
  }
  std::signal(SIGINT, Interrupted);
  std::signal(SIGTERM, Interrupted);
  Status status = Finish(&options);
  if (status) status = RunAll(options);
  if (status) {
    MPI_Finalize();
    return 0;
  }
  const int exit_status = ctl::ExitStatus(status);
  // Ranks that did not agree cannot leave together either.
  const bool apart = status.error().code == Code::kDeadlineExceeded;
  if (rank == 0 || apart) {
    std::fprintf(stderr, "ucudnn-rehearse: %s\n",
                 status.error().message.c_str());
  }
  if (apart) MPI_Abort(MPI_COMM_WORLD, exit_status);
  MPI_Finalize();
  return exit_status;
}

}  // namespace
}  // namespace ucudnn::rehearse

int main(int argc, char** argv) { return ucudnn::rehearse::Main(argc, argv); }
