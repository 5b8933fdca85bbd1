#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/times.h"
#include "client/ctl/profile_options.h"
#include "client/ctl/solve.h"
#include "solver/assign.h"
#include "solver/assign_explain.h"

namespace ucudnn::ctl {
namespace {

struct Options {
  std::string times;
  std::string model;
  BatchSize batch;
  OutputFormat output = OutputFormat::kTable;
};

// GPUs with equal times share a table.
AssignProblem ProblemOf(const std::vector<GpuTimes>& gpus, BatchSize batch) {
  AssignProblem problem;
  problem.batch = batch;
  std::vector<const GpuTimes*> owners;
  for (const GpuTimes& gpu : gpus) {
    const auto same = std::find_if(
        owners.begin(), owners.end(),
        [&](const GpuTimes* owner) { return owner->times == gpu.times; });
    AssignGpu added;
    added.table = static_cast<std::size_t>(same - owners.begin());
    problem.gpus.push_back(std::move(added));
    if (same != owners.end()) continue;
    owners.push_back(&gpu);
    auto& table = problem.tables.emplace_back();
    table.reserve(gpu.times.size());
    for (const BatchTime& time : gpu.times) {
      table.push_back({time.batch, time.time, Bytes(0)});
    }
  }
  return problem;
}

double Weight(BatchSize share, BatchSize batch) {
  return static_cast<double>(share.count()) /
         static_cast<double>(batch.count());
}

struct Answer {
  std::vector<GpuTimes> gpus;
  AssignProblem problem;
  Assignment assignment;
  std::optional<Nanoseconds> even_split;
  std::vector<ShareExplanation> shares;
  std::vector<MarginalGain> gains;
};

nlohmann::ordered_json ToJson(const Answer& answer) {
  nlohmann::ordered_json json;
  json["batch"] = answer.problem.batch.count();
  json["makespan_us"] = Microseconds(answer.assignment.makespan);
  json["lower_bound_us"] = Microseconds(answer.assignment.lower_bound);
  json["optimal"] = answer.assignment.lower_bound == answer.assignment.makespan;
  json["even_split_us"] = nullptr;
  if (answer.even_split.has_value()) {
    json["even_split_us"] = Microseconds(*answer.even_split);
  }
  json["gpus"] = nlohmann::ordered_json::array();
  for (std::size_t g = 0; g < answer.gpus.size(); ++g) {
    const Share& share = answer.assignment.shares[g];
    nlohmann::ordered_json gpu;
    gpu["gpu"] = answer.gpus[g].gpu;
    gpu["batch"] = share.batch.count();
    gpu["time_us"] = Microseconds(share.time);
    gpu["weight"] = Weight(share.batch, answer.problem.batch);
    gpu["binding"] = Name(answer.shares[g].binding);
    gpu["reason"] = answer.shares[g].text;
    json["gpus"].push_back(std::move(gpu));
  }
  json["one_more"] = nlohmann::ordered_json::array();
  for (const MarginalGain& gain : answer.gains) {
    nlohmann::ordered_json more;
    more["like"] = answer.gpus[gain.gpu].gpu;
    more["makespan_us"] = Microseconds(gain.makespan);
    more["gain_us"] = Microseconds(gain.gain);
    json["one_more"].push_back(std::move(more));
  }
  return json;
}

std::string ToTable(const Answer& answer) {
  Table table({"GPU", "BATCH", "WEIGHT", "TIME", "WHY"});
  for (std::size_t g = 0; g < answer.gpus.size(); ++g) {
    const Share& share = answer.assignment.shares[g];
    const bool used = share.batch != BatchSize(0);
    table.AddRow(
        {answer.gpus[g].gpu, std::to_string(share.batch.count()),
         fmt::format("{:.4f}", Weight(share.batch, answer.problem.batch)),
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

Status Run(const Options& options) {
  Answer answer;
  auto gpus = ReadTimesFile(options.times, options.model);
  if (!gpus) {
    // What is asked for and not there is a fault of the request.
    Error error = std::move(gpus).error();
    if (error.code == Code::kNotFound) error.code = Code::kInvalidArgument;
    return tl::unexpected<Error>(std::move(error));
  }
  answer.gpus = *std::move(gpus);
  answer.problem = ProblemOf(answer.gpus, options.batch);
  auto assignment = SolveAssignment(answer.problem);
  if (!assignment) {
    return Within(options.times, std::move(assignment).error());
  }
  answer.assignment = *std::move(assignment);
  answer.even_split = EvenSplit(answer.problem);
  answer.shares = ExplainShares(answer.problem, answer.assignment);
  UCUDNN_ASSIGN_OR_RETURN(answer.gains,
                          MarginalGains(answer.problem, answer.assignment));
  return Print(options.output, ToJson(answer),
               [&answer] { return ToTable(answer); });
}

}  // namespace

void AddSolveAssign(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "assign",
      "Share a mini-batch among unlike GPUs, the slowest as fast "
      "as possible");
  auto options = std::make_shared<Options>();
  command
      ->add_option("--times", options->times,
                   "Iteration times: CSV with gpu, batch and time_us or "
                   "ms_per_iteration")
      ->option_text("FILE")
      ->required();
  AddBatchOption(command, &options->batch);
  command
      ->add_option("--model", options->model,
                   "Which model's times, where the file has several")
      ->option_text("NAME");
  AddOutputOption(command, &options->output);
  command->callback(
      [options, chosen] { *chosen = [options] { return Run(*options); }; });
}

}  // namespace ucudnn::ctl
