// `ucudnn allocate`: which devices to which job.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/service/help.h"
#include "base/service/signals.h"
#include "base/service/time_limit.h"
#include "client/cli/command.h"
#include "client/solve/allot.h"
#include "client/solve/request.h"

namespace ucudnn::ctl {
namespace {

// Searches end by time, not by steps.
constexpr std::int64_t kMostNodes = std::int64_t{1} << 40;

struct AllocateOptions {
  std::string jobs;
  std::string devices;
  std::vector<std::string> profiles;
  AllotGoal goal = AllotGoal::kMaxMinShare;
  double time_limit = 60;
  std::string print;
  OutputFormat output = OutputFormat::kTable;
};

Result<Profile> ReadProfiles(const std::vector<std::string>& paths) {
  Profile all;
  std::set<KernelId> known;
  for (const std::string& path : paths) {
    UCUDNN_ASSIGN_OR_RETURN(Profile profile, OfInput(ReadProfileFile(path)));
    for (KernelProfile& kernel : profile.kernels) {
      if (!known.insert(kernel.id).second) {
        return Fail(Code::kInvalidArgument,
                    "{}: {} {} of {} on {} is in another file, too", path,
                    kernel.id.layer, Name(kernel.id.op), kernel.id.network,
                    kernel.id.device);
      }
      all.kernels.push_back(std::move(kernel));
    }
  }
  return all;
}

double Part(std::int64_t parts) {
  return static_cast<double>(parts) / static_cast<double>(kWholeShare);
}

// "2 x NVIDIA H200 (96, 96), 1 x ... (64)": devices with their batches.
std::string DevicesText(const AllotAnswer& answer, std::size_t job) {
  const JobAllotment& allotted = answer.allotment.jobs[job];
  std::string text;
  for (std::size_t k = 0; k < answer.free.size(); ++k) {
    if (allotted.devices[k] == 0) continue;
    std::string batches;
    for (const DeviceShare& share : allotted.shares) {
      if (share.kind != k) continue;
      batches +=
          fmt::format("{}{}", batches.empty() ? "" : ", ", share.batch.count());
    }
    text += fmt::format("{}{} x {} ({})", text.empty() ? "" : " + ",
                        allotted.devices[k], answer.free[k].kind, batches);
  }
  return text;
}

std::string ToTable(const AllotAnswer& answer) {
  Table table({"JOB", "SHARE", "STEP", "ALONE", "DEVICES (BATCHES)"});
  for (std::size_t j = 0; j < answer.request.jobs.size(); ++j) {
    const JobAllotment& allotted = answer.allotment.jobs[j];
    table.AddRow({answer.request.jobs[j].name,
                  fmt::format("{:.4f}", Part(allotted.share)),
                  HumanTime(allotted.step), HumanTime(allotted.alone),
                  DevicesText(answer, j)});
  }
  const Allotment& allotment = answer.allotment;
  std::string text =
      table.Text() +
      fmt::format("\n{} {:.4f} ({})\n",
                  answer.problem.goal == AllotGoal::kMaxMinShare
                      ? "least share"
                      : "sum of shares",
                  Part(allotment.objective),
                  allotment.optimal
                      ? "optimal"
                      : fmt::format("the search was cut off; at most {:.4f}",
                                    Part(allotment.bound)));
  return text + Lines(answer.notes);
}

std::string SlurmText(const AllotAnswer& answer) {
  std::string text;
  for (std::size_t j = 0; j < answer.request.jobs.size(); ++j) {
    text += fmt::format("sbatch --job-name={} {}\n",
                        answer.request.jobs[j].name, SlurmOptions(answer, j));
  }
  return text;
}

Status PrintKubernetes(const AllotAnswer& answer) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (std::size_t j = 0; j < answer.request.jobs.size(); ++j) {
    jobs.push_back({{"job", answer.request.jobs[j].name},
                    {"pods", KubernetesSelectors(answer, j)}});
  }
  return Print(OutputFormat::kYaml, jobs, [] { return std::string(); });
}

// On a terminal, says once a second how far the search is.
class Shown {
 public:
  void operator()(const AllotProgress& now) {
    const auto time = std::chrono::steady_clock::now();
    if (time - last_ < std::chrono::seconds(1)) return;
    last_ = time;
    std::fprintf(stderr, "ucudnn: found %.4f, at most %.4f\n",
                 Part(now.objective), Part(now.bound));
  }

 private:
  std::chrono::steady_clock::time_point last_ =
      std::chrono::steady_clock::now();
};

Status RunAllocate(const AllocateOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                          OfInput(ReadFile(options.jobs, kMaxJobsFile)));
  UCUDNN_ASSIGN_OR_RETURN(JobsToAllot jobs,
                          ParseJobsToAllot(text, options.jobs));
  auto free = ParseFreeDevices(options.devices);
  if (!free) return Within("--devices", std::move(free).error());
  UCUDNN_ASSIGN_OR_RETURN(const Profile profile,
                          ReadProfiles(options.profiles));
  const TimeLimit limit(RoundUpSeconds(options.time_limit), StopOnSignals());
  Limits limits;
  limits.max_nodes = kMostNodes;
  limits.stop = limit.token();
  std::function<void(const AllotProgress&)> progress;
  if (isatty(STDERR_FILENO) != 0) progress = Shown();
  UCUDNN_ASSIGN_OR_RETURN(const AllotAnswer answer,
                          SolveAllot(std::move(jobs), *std::move(free), profile,
                                     options.goal, limits, progress));
  if (options.print == "slurm") return WriteText("", SlurmText(answer));
  if (options.print == "kubernetes") return PrintKubernetes(answer);
  return Print(options.output, ToJson(answer),
               [&answer] { return ToTable(answer); });
}

}  // namespace

void AddAllocateCommand(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("allocate", "Allot free devices to jobs, from files");
  auto options = std::make_shared<AllocateOptions>();
  AddTextOption(command, "--jobs", "FILE", &options->jobs,
                "The jobs, TOML or JSON (docs/allocation.md)")
      ->required();
  AddTextOption(command, "--devices", "KIND=COUNT[,...]", &options->devices,
                "The free devices of each kind, which are devices of the "
                "profiles")
      ->required();
  command
      ->add_option("--profile", options->profiles,
                   "Measurements, CSV or gzipped CSV; several files are one")
      ->option_text("FILE...")
      ->required();
  AddReadOption(
      command, "--goal", &options->goal, ParseAllotGoal,
      "What is largest: the least share (share, unless given) or the sum "
      "of all shares (throughput), both weighted")
      ->option_text("GOAL");
  command
      ->add_option("--time-limit", options->time_limit,
                   "How many seconds to search at most; 60 unless given")
      ->check(NumberIn(
          0.001, std::chrono::duration<double>(kMostAllocationTime).count()))
      ->option_text("S");
  command
      ->add_option("--print", options->print,
                   "Print only what starts the jobs: slurm (options of "
                   "heterogeneous jobs) or kubernetes (node selectors)")
      ->check(CLI::IsMember({"slurm", "kubernetes"}))
      ->option_text("FOR");
  AddOutputOption(command, &options->output);
  OnChosen(command, chosen, [options] { return RunAllocate(*options); });
}

}  // namespace ucudnn::ctl
