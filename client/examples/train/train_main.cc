// Trains a convolutional network data-parallel on MPI ranks. A plan determines
// the ranks' shares of each mini-batch and their convolutions:
//
//   mpirun -n 2 --bind-to none ucudnn-train --net lenet --batch 64
//       --data mnist:FOLDER --checkpoint lenet.ckpt

#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/service/help.h"
#include "base/text.h"
#include "client/cli/command.h"
#include "client/cli/profile_options.h"
#include "client/cli/ranks_main.h"
#include "client/examples/train/job.h"
#include "client/examples/train/report.h"
#include "client/examples/train/training.h"
#include "client/ranks/ranks.h"

namespace ucudnn::train {
namespace {

volatile std::sig_atomic_t stop_signal = 0;

// The first signal lets the step finish; a second ends the process.
extern "C" void Interrupted(int signal) {
  if (stop_signal != 0) _exit(128 + signal);
  stop_signal = signal;
}

// Command-line arguments before validation.
struct Arguments {
  TrainOptions options;
  std::int64_t batch = 0;
  std::string image;
  std::string precision = "FP32";
  Bytes workspace_limit{-1};
  Bytes total_workspace{-1};
  std::string coordinator;
  int wait_seconds = 0;
  bool print_network = false;
  ctl::OutputFormat output = ctl::OutputFormat::kTable;
};

void AddTrainingOptions(CLI::App& app, TrainOptions* options, Arguments* args) {
  app.add_option("--net", options->net,
                 "lenet, resnet18, or a CSV file with a chain of "
                 "convolutions")
      ->option_text("NAME|FILE");
  app.add_option("--batch", args->batch, "The mini-batch size, over all ranks")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, kMaxBatchSize.count()));
  app.add_option("--data", options->data,
                 "synthetic, mnist:FOLDER or cifar10:FOLDER")
      ->option_text("DATA");
  app.add_option("--image", args->image,
                 "Channels, rows and columns of synthetic images")
      ->option_text("CxHxW");
  app.add_option("--classes", options->classes, "Classes of synthetic images")
      ->check(CLI::Range(2, 100'000))
      ->default_str("");
  app.add_option("--images", options->images, "Number of synthetic images")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--steps", options->steps, "Steps to train")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app.add_option("--rate", options->rate, "Learning rate")
      ->check(CLI::PositiveNumber);
  app.add_option("--momentum", options->momentum, "Momentum")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", options->seed,
                 "Seed for parameters, order and synthetic images");
  app.add_option("--checkpoint", options->checkpoint,
                 "File to save the state of the training in")
      ->option_text("FILE");
  app.add_option("--checkpoint-every", options->checkpoint_every,
                 "Steps between checkpoints")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app.add_flag("--resume", options->resume, "Resume from the checkpoint")
      ->needs("--checkpoint");
}

void AddPlanOptions(CLI::App& app, TrainOptions* options, Arguments* args) {
  app.add_option("--coordinator", args->coordinator,
                 "Coordinators to call; default: UCUDNN_COORDINATOR")
      ->option_text("HOST:PORT[,...]");
  ctl::AddBytesOption(&app, "--workspace-limit", &args->workspace_limit,
                      "Workspace limit for each kernel, such as 64MiB");
  ctl::AddBytesOption(&app, "--total-workspace", &args->total_workspace,
                      "Workspace limit for all kernels together");
  ctl::AddBatchPolicyOption(&app, "--policy,--batch-policy",
                            "UCUDNN_BATCH_SIZE_POLICY or powerOfTwo",
                            [&session = options->session](BatchPolicy policy) {
                              session.policy = policy;
                            });
  ctl::AcceptNames(app.add_option("--precision", args->precision,
                                  "The precision to train in"),
                   {"FP32", "TF32"});
  app.add_flag_callback(
      "--auto-replan", [options] { options->session.auto_replan = true; },
      "Adopt plans that the coordinator proposes by itself");
  app.add_option("--wait", args->wait_seconds,
                 "How long to wait for measurements that the plan needs")
      ->option_text("SECONDS")
      ->check(CLI::Range(0, 86'400));
  app.add_flag("--even", options->even,
               "Split the mini-batch evenly, for comparison");
  app.add_option("--cpu-devices", options->cpu_devices,
                 "Without a GPU: parts of each node's CPU; default: one for "
                 "each of its ranks")
      ->check(CLI::Range(1, 1024))
      ->default_str("");
  app.add_option("--threads", options->threads,
                 "Threads of each rank's part, by rank, such as 2,1; default: "
                 "an even share of the cores")
      ->delimiter(',')
      ->option_text("N[,...]")
      ->check(CLI::Range(1, 4096))
      ->default_str("");
  app.add_option("--readers", options->readers,
                 "Threads of each rank that read the next step's images")
      ->check(CLI::Range(1, 256));
  app.add_flag("--print-network", args->print_network,
               "Print the convolutions, as `ucudnn networks put` takes them, "
               "and train nothing");
  app.add_option("--measurements", options->measurements,
                 "How often to time the convolutions alone at the end")
      ->check(CLI::Range(0, 1000));
  ctl::AddOutputOption(&app, &args->output);
}

Result<ImageExtent> ParseExtent(const std::string& text) {
  std::vector<std::int64_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const auto size = ParseInteger(
        std::string_view(text).substr(begin, end - begin), 1, 4096);
    sizes.push_back(size.value_or(0));
    begin = end + 1;
  }
  if (sizes.size() != 3 || std::count(sizes.begin(), sizes.end(), 0) > 0) {
    return Fail(Code::kInvalidArgument,
                "--image: '{}'; such as 3x32x32 is accepted, each number "
                "from 1 to 4096",
                Excerpt(text));
  }
  return ImageExtent{sizes[0], sizes[1], sizes[2]};
}

Status Finish(Arguments* args) {
  SessionOptions& session = args->options.session;
  session.batch = BatchSize(args->batch);
  session.job_name = "ucudnn-train " + args->options.net;
  UCUDNN_ASSIGN_OR_RETURN(session.precision, ParsePrecision(args->precision));
  if (!args->image.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(args->options.image, ParseExtent(args->image));
  }
  if (args->workspace_limit >= Bytes(0)) {
    session.workspace_limit = args->workspace_limit;
  }
  if (args->total_workspace >= Bytes(0)) {
    session.total_workspace = args->total_workspace;
  }
  if (!args->coordinator.empty()) session.coordinators = args->coordinator;
  session.await_measurements = std::chrono::seconds(args->wait_seconds);
  return {};
}

// Runs on rank 0 only.
Status PrintNetwork(const TrainOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const Job job, MakeJob(options));
  std::fprintf(stderr, "%s\n", job.net.name.c_str());
  std::fputs(ToCsv(ConvolutionsOf(job.net)).c_str(), stdout);
  if (std::fflush(stdout) == 0) return {};
  return Fail(Code::kDataLoss, "standard output cannot be written");
}

Status RunAll(const Arguments& args) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto ranks,
      Ranks::Duplicate(MPI_COMM_WORLD, std::chrono::steady_clock::now() +
                                           std::chrono::minutes(1)));
  if (args.print_network) {
    const Status printed =
        ranks->rank() == 0 ? PrintNetwork(args.options) : Status();
    UCUDNN_ASSIGN_OR_RETURN(
        Status all, ranks->AllOf(printed, std::chrono::steady_clock::now() +
                                              std::chrono::minutes(1)));
    return all;
  }
  UCUDNN_ASSIGN_OR_RETURN(const Report report, Train(*ranks, args.options, [] {
                            return stop_signal != 0;
                          }));
  Status printed;
  if (ranks->rank() == 0) {
    printed = ctl::Print(args.output, ToJson(report),
                         [&] { return ToTable(report); });
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const Status all, ranks->AllOf(printed, std::chrono::steady_clock::now() +
                                                  std::chrono::minutes(1)));
  UCUDNN_RETURN_IF_ERROR(all);
  if (!report.interrupted) return {};
  return Fail(Code::kCancelled, "interrupted after step {}{}",
              report.first_step + std::ssize(report.losses),
              args.options.checkpoint.empty()
                  ? ""
                  : "; --resume continues from " + args.options.checkpoint);
}

int Main(int argc, char** argv) {
  Arguments args;
  CLI::App app(
      "Trains a convolutional network on MPI ranks, with mini-batches split "
      "and divided\nas planned.\n\n  mpirun -n 2 --bind-to none ucudnn-train "
      "--net lenet --batch 64 --data mnist:FOLDER");
  app.name("ucudnn-train");
  app.set_version_flag("--version", UCUDNN_VERSION);
  ShowDefaults(app);
  AddTrainingOptions(app, &args.options, &args);
  AddPlanOptions(app, &args.options, &args);
  return ctl::RunOnRanks(
      app, argc, argv,
      [&]() -> Status {
        std::signal(SIGINT, Interrupted);
        std::signal(SIGTERM, Interrupted);
        UCUDNN_RETURN_IF_ERROR(Finish(&args));
        return RunAll(args);
      },
      [](const Status& status) {
        if (status.error().code != Code::kCancelled) {
          return ctl::ExitStatus(status);
        }
        return 128 + (stop_signal != 0 ? stop_signal : SIGTERM);
      });
}

}  // namespace
}  // namespace ucudnn::train

int main(int argc, char** argv) { return ucudnn::train::Main(argc, argv); }
