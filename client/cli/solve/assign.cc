#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/file.h"
#include "base/files/times.h"
#include "client/cli/profile_options.h"
#include "client/cli/solve/solve.h"
#include "client/solve/answers.h"

namespace ucudnn::ctl {
namespace {

struct AssignOptions {
  std::string times;
  std::string model;
  BatchSize batch;
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

Status RunAssign(const AssignOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(std::vector<GpuTimes> gpus,
                          OfInput(ReadTimesFile(options.times, options.model)));
  const auto answer = SolveAssign(std::move(gpus), options.batch);
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
  command
      ->add_option("--times", options->times,
                   "Iteration times: CSV with gpu, batch and time_us or "
                   "ms_per_iteration")
      ->option_text("FILE")
      ->required();
  AddBatchOption(command, &options->batch);
  command
      ->add_option("--model", options->model,
                   "The model to use, if the file has several")
      ->option_text("NAME");
  AddOutputOption(command, &options->output);
  command->callback([options, chosen] {
    *chosen = [options] { return RunAssign(*options); };
  });
}

}  // namespace ucudnn::ctl
