#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/files/times.h"
#include "client/cli/profile_options.h"
#include "client/cli/solve/general_solver.h"
#include "client/cli/solve/solve.h"
#include "client/solve/answers.h"

namespace ucudnn::ctl {
namespace {

struct AssignOptions {
  std::string times;
  std::string model;
  BatchSize batch;
  GeneralSolver solver;
  OutputFormat output = OutputFormat::kTable;
};

std::string ToTable(const AssignAnswer& answer) {
  Table table({"GPU", "BATCH", "WEIGHT", "TIME", "WHY"});
  for (std::size_t g = 0; g < answer.gpus.size(); ++g) {
    const Share& share = answer.assignment.shares[g];
    const bool used = share.batch != BatchSize(0);
    table.AddRow({answer.gpus[g].gpu, std::to_string(share.batch.count()),
                  fmt::format("{:.4f}", answer.Weight(g)),
                  used ? HumanTime(share.time) : "-", answer.shares[g].text});
  }
  std::string text =
      table.Text() +
      fmt::format("\nbatch {} on {} of {} GPUs: {} (optimal)",
                  answer.problem.batch.count(), answer.assignment.gpus_used,
                  answer.gpus.size(), HumanTime(answer.assignment.makespan));
  if (answer.even_split.has_value()) {
    text += fmt::format(", evenly split {}", HumanTime(*answer.even_split));
  }
  text += "\n";
  for (const MarginalGain& gain : answer.gains) {
    text +=
        fmt::format("one more {}: {}\n", answer.gpus[gain.gpu].gpu,
                    gain.gain == Nanoseconds(0)
                        ? std::string("no gain")
                        : fmt::format("{} ({} less)", HumanTime(gain.makespan),
                                      HumanTime(gain.gain)));
  }
  return text;
}

// The best assignment, asked of the general solver too.
Result<Assignment> AssignAndConsult(const GeneralSolver& solver,
                                    const std::vector<std::string>& names,
                                    const AssignProblem& problem) {
  UCUDNN_ASSIGN_OR_RETURN(Assignment assignment, SolveAssignment(problem));
  UCUDNN_ASSIGN_OR_RETURN(
      const auto solution,
      Consult(solver, AssignmentAsIlp(problem, names),
              "Batches of unlike GPUs: mu-cuDNN, section III-E",
              static_cast<double>(assignment.makespan.count())));
  if (!solution) return assignment;
  assignment.gpus_used = 0;
  assignment.total_time = Nanoseconds(0);
  assignment.ties_resolved = false;
  auto value = solution->values.begin() + 1;  // the makespan's is the first
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    Share& share = assignment.shares[g] = {};
    for (const BatchCost& cost : problem.tables[problem.gpus[g].table]) {
      if (cost.batch > problem.batch) break;
      if (*value++ == 0) continue;
      share = {cost.batch, cost.time};
      ++assignment.gpus_used;
      assignment.total_time += cost.time;
    }
  }
  return assignment;
}

Status RunAssign(const AssignOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(std::vector<GpuTimes> gpus,
                          OfInput(ReadTimesFile(options.times, options.model)));
  std::vector<std::string> names;
  for (const GpuTimes& gpu : gpus) names.push_back(gpu.gpu);
  const auto answer = SolveAssign(
      std::move(gpus), options.batch, [&](const AssignProblem& problem) {
        return AssignAndConsult(options.solver, names, problem);
      });
  if (!answer) return Within(options.times, answer.error());
  return Print(options.output, ToJson(*answer),
               [&answer] { return ToTable(*answer); });
}

}  // namespace

void AddSolveAssign(CLI::App* solve, Chosen* chosen) {
  CLI::App* command =
      solve->add_subcommand("assign",
                            "Divide a mini-batch among unlike GPUs so that the "
                            "slowest takes the least time");
  auto options = std::make_shared<AssignOptions>();
  AddTextOption(command, "--times", "FILE", &options->times,
                "Iteration times: CSV with gpu, batch and time_us or "
                "ms_per_iteration")
      ->required();
  AddBatchOption(command, &options->batch);
  AddTextOption(command, "--model", "NAME", &options->model,
                "The model to use, if the file has several");
  AddGeneralSolverOptions(command, &options->solver);
  AddOutputOption(command, &options->output);
  OnChosen(command, chosen, [options] { return RunAssign(*options); });
}

}  // namespace ucudnn::ctl
