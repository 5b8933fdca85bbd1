#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "client/cli/memory_options.h"
#include "client/cli/solve/solve.h"
#include "client/solve/joint_memory.h"

namespace ucudnn::ctl {
namespace {

struct JointOptions {
  MemoryOptions shared;
  std::vector<std::string> gpus;
  std::int64_t step = 1;
};

// "K40", "K40=4GB" or "K40=4GB,profile.csv"; the model may be a file or a
// kind of device.
Result<JointMemoryGpu> ParseGpu(const std::string& text,
                                const ModelOfKind& model_of_kind) {
  JointMemoryGpu gpu;
  gpu.name = text;
  std::string model = text;
  if (const auto comma = model.find(','); comma != std::string::npos) {
    UCUDNN_ASSIGN_OR_RETURN(gpu.profile,
                            ReadInput(model.substr(comma + 1), 1_GiB));
    model.resize(comma);
  }
  if (const auto equals = model.rfind('='); equals != std::string::npos) {
    const Result<Bytes> budget = ParseBytes(model.substr(equals + 1));
    if (!budget) return Within("--gpu", budget.error());
    if (*budget < Bytes(1)) {
      return Fail(Code::kInvalidArgument,
                  "--gpu: '{}' has no memory; 1 byte or more is accepted",
                  Excerpt(text));
    }
    gpu.budget = *budget;
    model.resize(equals);
  }
  UCUDNN_ASSIGN_OR_RETURN(gpu.device,
                          ReadDeviceModel("--gpu", model, model_of_kind));
  return gpu;
}

std::string ToTable(const JointMemoryAnswer& answer) {
  const Assignment& assignment = answer.plan.assignment;
  Table table({"GPU", "BATCH", "TIME", "POOL", "TO HOST", "WHY"});
  for (std::size_t g = 0; g < answer.gpus.size(); ++g) {
    const Share& share = assignment.shares[g];
    const MemoryPlan* plan = answer.PlanOf(g);
    table.AddRow({answer.gpus[g].name, std::to_string(share.batch.count()),
                  plan == nullptr ? "-" : HumanTime(share.time),
                  plan == nullptr ? "-" : HumanBytes(plan->peak),
                  plan == nullptr ? "-" : HumanBytes(plan->offloaded),
                  answer.WhyOf(g)});
  }
  const bool optimal = answer.plan.lower_bound == assignment.makespan;
  return table.Text() +
         fmt::format(
             "\nbatch {} on {} of {} GPUs: {} ({}); with all of each share in "
             "memory {}\n",
             answer.problem.batch.count(), assignment.gpus_used,
             answer.gpus.size(), HumanTime(assignment.makespan),
             optimal ? "optimal"
                     : "the search was cut off; at least " +
                           HumanTime(answer.plan.lower_bound),
             answer.plan.makespan_whole ? HumanTime(*answer.plan.makespan_whole)
             : answer.plan.cut_off      ? "not known"
                                        : "impossible") +
         Lines(answer.notes);
}

Status RunJoint(const JointOptions& options, const ModelOfKind& model_of_kind) {
  UCUDNN_ASSIGN_OR_RETURN(const MemoryProblem problem,
                          ReadMemoryProblem(options.shared));
  std::vector<JointMemoryGpu> gpus;
  for (const std::string& text : options.gpus) {
    UCUDNN_ASSIGN_OR_RETURN(gpus.emplace_back(), ParseGpu(text, model_of_kind));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const JointMemoryAnswer answer,
      SolveJointMemory(problem, std::move(gpus), BatchSize(options.step)));
  return Print(options.shared.output, ToJson(answer),
               [&answer] { return ToTable(answer); });
}

}  // namespace

void AddSolveJoint(CLI::App* solve, const ModelOfKind& model_of_kind,
                   Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "joint",
      "Divide a mini-batch among unlike GPUs of limited memory, each training "
      "its share under a memory plan, so that the slowest takes the least "
      "time");
  auto options = std::make_shared<JointOptions>();
  AddMemoryOptions(command, "", &options->shared);
  command
      ->add_option("--gpu", options->gpus,
                   "A GPU's model, as of solve memory, its memory for an "
                   "iteration (default: all of the model's), and what was "
                   "measured on it; once for each GPU")
      ->option_text("NAME|FILE|KIND[=SIZE][,PROFILE.csv]")
      ->required();
  command
      ->add_option("--step", options->step, "Shares are multiples of N images")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, kMaxBatchSize.count()))
      ->capture_default_str();
  OnChosen(command, chosen, [options, model_of_kind] {
    return RunJoint(*options, model_of_kind);
  });
}

}  // namespace ucudnn::ctl
