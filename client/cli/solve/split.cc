#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/service/signals.h"
#include "base/text.h"
#include "base/training/json.h"
#include "client/cli/memory_options.h"
#include "client/cli/progress.h"
#include "client/cli/solve/solve.h"
#include "client/solve/least_split.h"

namespace ucudnn::ctl {
namespace {

struct SolveSplitOptions {
  MemoryOptions shared;
  DeviceOptions device;
  LeastSplitRequest request;
};

// `row` has the first cells, which tell of what network the plan is.
void AddRow(std::vector<std::string> row, const MemoryPlan& plan,
            Table* table) {
  row.insert(
      row.end(),
      {HumanTime(plan.time), HumanTime(plan.lower_bound), HumanBytes(plan.peak),
       HumanBytes(plan.lower_bound_bytes), HumanBytes(plan.budget)});
  table->AddRow(std::move(row));
}

std::string ToTable(const LeastSplitAnswer& answer) {
  const LeastSplit& found = answer.found;
  Table table({"NETWORK", "SPLIT", "CONVOLUTIONS", "UP TO", "TIME", "BOUND",
               "POOL", "LEAST POOL", "BUDGET"});
  if (found.planned) {
    const SplitDepth& depth = found.split->depth;
    AddRow({"in parts", ToString(found.split->options),
            fmt::format("{} of {}", depth.convolutions, depth.all_convolutions),
            Excerpt(depth.last_node, 200)},
           found.planned->plan, &table);
  }
  if (found.whole) {
    AddRow({"whole", "-", "-", "-"}, found.whole->plan, &table);
  }
  std::string text = table.Text() + "\n";
  text += found.whole_fits
              ? "the whole network fits: nothing needs to be split\n"
              : Searched(found.search) + "\n";
  if (found.cut_off) {
    text +=
        "the search was stopped: another split of as many parts may be "
        "faster\n";
  }
  return text + Lines(answer.notes);
}

Status RunSplit(const SolveSplitOptions& options,
                const ModelOfKind& model_of_kind) {
  LeastSplitRequest request = options.request;
  UCUDNN_ASSIGN_OR_RETURN(
      request.memory,
      ReadMemoryProblem(options.shared, options.device, model_of_kind));
  Progress progress("splits searched", isatty(STDERR_FILENO) == 1);
  request.progress = [&progress](const SplitSearch& search,
                                 const std::string& what) {
    progress.Show(search.done, search.splits, what);
  };
  UCUDNN_ASSIGN_OR_RETURN(const LeastSplitAnswer answer,
                          SolveLeastSplit(request));
  progress.End();
  Status found = HasPlan(answer);
  if (!found && StopSignal() != 0) found.error().code = Code::kCancelled;
  UCUDNN_RETURN_IF_ERROR(found);
  const nlohmann::ordered_json json = ToJson(answer);
  const LeastSplit::Planned& planned = *answer.Plan();
  UCUDNN_RETURN_IF_ERROR(WritePlanFiles(options.device, &planned.plan,
                                        planned.graph, json["graph"]));
  return Print(options.shared.output, json, [&] { return ToTable(answer); });
}

}  // namespace

void AddSolveSplit(CLI::App* solve, const ModelOfKind& model_of_kind,
                   Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "split",
      "Find the least depth, and the fewest parts of the image, with which a "
      "network split by Split-CNN trains a batch within a budget");
  auto options = std::make_shared<SolveSplitOptions>();
  AddMemoryOptions(command, "", &options->shared);
  command->remove_option(command->get_option("--split"));
  AddDeviceOptions(command, &options->device, &options->shared.problem.request);
  command
      ->add_option("--max-parts", options->request.max_parts,
                   "The most parts of an image, height times width")
      ->option_text("N")
      ->check(CLI::Range(2, kMaxSplitParts))
      ->capture_default_str();
  command->add_flag("--stochastic", options->request.stochastic,
                    "Of splits whose cuts are drawn at random");
  OnChosen(command, chosen, [options, model_of_kind] {
    return RunSplit(*options, model_of_kind);
  });
}

}  // namespace ucudnn::ctl
