// Trains a network data-parallel on MPI ranks, or on one. A plan determines the
// ranks' shares of each mini-batch, and what leaves their devices' memory when:
//
//   mpirun -n 2 --bind-to none ucudnn-train --network resnet50.onnx
//       --batch 256 --memory-budget 8GiB,4GiB

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "base/network.h"
#include "base/service/help.h"
#include "base/service/signals.h"
#include "base/service/time_limit.h"
#include "base/text.h"
#include "client/cli/command.h"
#include "client/cli/network_options.h"
#include "client/cli/profile_options.h"
#include "client/cli/ranks_main.h"
#include "client/ranks/ranks.h"
#include "client/train/report.h"
#include "client/train/training.h"
#include "solver/memory/policies.h"

namespace ucudnn::train {
namespace {

// Command-line arguments before validation.
struct Arguments {
  TrainOptions options;
  std::string precision = "FP32";
  std::string statistics = "all";
  std::string split;
  double time_limit = 60;
  std::string coordinator;
  int wait_seconds = 0;
  ctl::OutputFormat output = ctl::OutputFormat::kTable;
  std::array<const CLI::Option*, 2> synthetic = {};  // those of synthetic data
};

void AddTrainingOptions(CLI::App& app, Arguments* args) {
  TrainOptions* const options = &args->options;
  ctl::AddTextOption(&app, "--network", "FILE", &options->network,
                     "An ONNX model, or a chain of convolutions as CSV")
      ->required();
  ctl::AddInputShapeOption(&app, &options->shapes);
  ctl::AddBatchOption(&app, &options->batch);
  ctl::AcceptNames(app.add_option("--precision", args->precision,
                                  "The precision to train in"),
                   {"FP32", "TF32"});
  app.add_option("--data", options->data,
                 "synthetic, mnist:FOLDER or cifar10:FOLDER")
      ->option_text("DATA");
  args->synthetic[0] =
      app.add_option("--classes", options->classes,
                     "Classes of synthetic images; default: the network's")
          ->check(CLI::Range(2, 100'000))
          ->default_str("");
  args->synthetic[1] =
      app.add_option("--images", options->images, "Number of synthetic images")
          ->check(CLI::Range(1, 1 << 24));
  app.add_option("--steps", options->steps, "Steps to train")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  app.add_option("--evaluate", options->evaluate,
                 "Images that are not trained on, of which to show the loss "
                 "and the accuracy after the last step; mnist and cifar10 have "
                 "them in t10k-* and test_batch.bin")
      ->option_text("N")
      ->check(CLI::Range(0, 1 << 24))
      ->default_str("");
  app.add_option("--rate", options->rate, "Learning rate")
      ->check(NumberIn(1e-12, 1e6));
  app.add_option("--momentum", options->momentum, "Momentum")
      ->check(NumberIn(0, 1));
  app.add_option("--seed", options->seed,
                 "Seed for parameters, order and synthetic images")
      ->check(WholeNumber());
  app.add_option("--split", args->split,
                 "Compute the first layers, this share of the convolutions, in "
                 "H times W parts of the image, whose cuts may be drawn for "
                 "each step (Split-CNN)")
      ->option_text("DEPTH,H,W[,stochastic]");
  ctl::AcceptNames(
      app.add_option(
          "--batch-statistics", args->statistics,
          "Whether normalisations take statistics over the whole "
          "mini-batch, or over each rank's images, which may then be "
          "trained in sub-batches with their own"),
      {"all", "rank"});
  ctl::AddTextOption(&app, "--checkpoint", "FILE", &options->checkpoint,
                     "File to save the state of the training in");
  app.add_option("--checkpoint-every", options->checkpoint_every,
                 "Steps between checkpoints")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  app.add_flag("--resume", options->resume, "Resume from the checkpoint")
      ->needs("--checkpoint");
}

void AddMemoryOptions(CLI::App& app, Arguments* args) {
  TrainOptions* const options = &args->options;
  std::vector<std::string_view> names = {"undivided"};
  for (const MemoryPolicy& policy : MemoryPolicies()) {
    names.push_back(policy.name);
  }
  ctl::AddMemoryBudgetOption(
      &app, &options->budgets,
      "Device memory for training, one size or one for each rank; 0: all that "
      "the device has; default: the same, in which everything stays");
  app.add_option("--memory-policy", options->policy,
                 fmt::format("{}; default: best within budgets",
                             fmt::join(names, ", ")))
      ->option_text("NAME");
  app.add_flag("--recompute", options->plan.recompute,
               "best may compute activations again instead of keeping or "
               "moving them");
  app.add_flag("--offload-weights", options->plan.offload_weights,
               "best may keep weights on the host");
  app.add_option("--streams", options->plan.streams,
                 "Tasks of a GPU that may run at once, such as those of a "
                 "network's branches, if the first steps show that this is "
                 "faster")
      ->option_text("N")
      ->check(CLI::Range(1, 4));
  app.add_option("--time-limit", args->time_limit,
                 "Time limit in seconds for policies that search")
      ->option_text("SECONDS")
      ->check(NumberIn(0, 1e6));
  ctl::AddTextOption(
      &app, "--device-model", "FILE", &options->device_model,
      "The link to the host as a JSON file, instead of measuring it");
  ctl::AddTextOption(&app, "--measurements", "FILE", &options->measurements,
                     "Keep measurements in this file, and take from it what "
                     "earlier starts measured: the same plan comes out");
  ctl::AddTextOption(
      &app, "--graph-out", "FILE", &options->graph_out,
      "Write rank 0's training graph with the times and the link of "
      "the plan, as JSON; ucudnn solve memory --graph plans it "
      "again");
  auto* even = app.add_flag("--even", options->even,
                            "Split the mini-batch evenly, for comparison");
  app.add_option("--shares", options->shares,
                 "Images of each rank, such as 48,16, for comparison")
      ->delimiter(',')
      ->option_text("N[,...]")
      ->check(CLI::Range(std::int64_t{1}, kMaxBatchSize.count()))
      ->excludes(even);
  app.add_flag("--task-times", options->time_tasks,
               "Time each task, and compare operators with the plan");
  app.add_flag("--poison", options->poison,
               "Fill memory with NaN whenever the plan gives it or takes it, "
               "to check that nothing reads too early or too late");
}

void AddJobOptions(CLI::App& app, Arguments* args) {
  TrainOptions* const options = &args->options;
  app.add_option("--coordinator", args->coordinator,
                 "Coordinators to call; default: UCUDNN_COORDINATOR")
      ->option_text("HOST:PORT[,...]");
  app.add_option("--wait", args->wait_seconds,
                 "How long to wait for measurements that the plan needs")
      ->option_text("SECONDS")
      ->check(CLI::Range(0, 86'400));
  app.add_flag_callback(
      "--auto-replan", [options] { options->session.auto_replan = true; },
      "Adopt plans that the coordinator proposes by itself");
  app.add_option("--device", options->device,
                 "auto: a GPU for each rank, else parts of the CPU; gpu:N; cpu")
      ->option_text("auto|cpu|gpu:N");
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
  ctl::AddOutputOption(&app, &args->output);
}

Status Finish(Arguments* args) {
  TrainOptions& options = args->options;
  for (const CLI::Option* const option : args->synthetic) {
    if (option->count() == 0 || options.data == "synthetic") continue;
    return Fail(Code::kInvalidArgument,
                "{} is of synthetic images; --data is '{}'", option->get_name(),
                Excerpt(options.data));
  }
  UCUDNN_ASSIGN_OR_RETURN(options.precision, ParsePrecision(args->precision));
  if (!options.policy.empty()) {
    UCUDNN_RETURN_IF_ERROR(FindTrainingPolicy(options.policy));
  }
  options.plan.time_limit = RoundUpSeconds(args->time_limit);
  if (!args->split.empty()) {
    auto split = ParseSplitOptions(args->split);
    if (!split) return Within("--split", std::move(split).error());
    options.split = *split;
  }
  options.statistics_of_ranks = args->statistics == "rank";
  options.session.job_name = "ucudnn-train " + NetworkNameOf(options.network);
  if (!args->coordinator.empty()) {
    options.session.coordinators = args->coordinator;
  }
  options.session.await_measurements = std::chrono::seconds(args->wait_seconds);
  return {};
}

Ranks::Deadline InAMinute() {
  return std::chrono::steady_clock::now() + std::chrono::minutes(1);
}

Status RunAll(const Arguments& args, const std::stop_token& stop) {
  UCUDNN_ASSIGN_OR_RETURN(const auto ranks,
                          Ranks::Duplicate(MPI_COMM_WORLD, InAMinute()));
  UCUDNN_ASSIGN_OR_RETURN(const Report report,
                          Train(*ranks, args.options, stop));
  Status printed;
  if (ranks->rank() == 0) {
    printed = ctl::Print(args.output, ToJson(report),
                         [&] { return ToTable(report); });
  }
  UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks->AllOf(printed, InAMinute()));
  UCUDNN_RETURN_IF_ERROR(all);
  if (!report.evaluated) {
    return Within("--evaluate, after training", report.evaluated.error());
  }
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
      "Trains a network on MPI ranks, or on one: mini-batches are shared, and "
      "what does not\nfit into device memory leaves for the host and returns, "
      "as planned.\n\n  mpirun -n 2 --bind-to none ucudnn-train "
      "--network resnet50.onnx --batch 256\n      --memory-budget 8GiB,4GiB");
  app.name("ucudnn-train");
  app.set_version_flag("--version", UCUDNN_VERSION);
  ShowDefaults(app);
  AddTrainingOptions(app, &args);
  AddMemoryOptions(app, &args);
  AddJobOptions(app, &args);
  // Before MPI starts threads.
  const std::stop_token stop = StopOnSignals();
  return ctl::RunOnRanks(app, argc, argv, [&]() -> Status {
    UCUDNN_RETURN_IF_ERROR(Finish(&args));
    return RunAll(args, stop);
  });
}

}  // namespace
}  // namespace ucudnn::train

int main(int argc, char** argv) { return ucudnn::train::Main(argc, argv); }
