#include <memory>

#include "base/plan_json.h"
#include "client/ctl/profile_options.h"
#include "client/ctl/solve.h"
#include "solver/pareto.h"

namespace ucudnn::ctl {
namespace {

// kInvalidArgument, naming what could be chosen, unless there is one kernel.
Status CheckOneKernel(const Profile& kernels) {
  if (kernels.kernels.size() == 1) return {};
  std::string names;
  for (const KernelProfile& kernel : kernels.kernels) {
    if (names.size() > 200) {
      names += ", ...";
      break;
    }
    if (!names.empty()) names += ", ";
    names += fmt::format("{} {}", kernel.id.layer, Name(kernel.id.op));
  }
  return Fail(Code::kInvalidArgument,
              "a front is of one kernel, but {} remain; choose one by --layer "
              "and --op: {}",
              kernels.kernels.size(), names);
}

nlohmann::ordered_json FrontJson(const ParetoFront& front) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < front.points().size(); ++i) {
    nlohmann::ordered_json point;
    point["time_us"] = Microseconds(front.points()[i].time);
    point["workspace_bytes"] = front.points()[i].workspace.count();
    point["micro_batches"] = ToJson(front.PlanAt(i));
    points.push_back(std::move(point));
  }
  nlohmann::ordered_json json;
  json["front"] = std::move(points);
  return json;
}

std::string FrontTable(const ParetoFront& front) {
  Table table({"WORKSPACE", "BYTES", "TIME", "MICRO-BATCHES"});
  for (std::size_t i = 0; i < front.points().size(); ++i) {
    const FrontPoint& point = front.points()[i];
    table.AddRow(
        {HumanBytes(point.workspace), std::to_string(point.workspace.count()),
         HumanTime(point.time), DescribeMicroBatches(front.PlanAt(i))});
  }
  return table.Text();
}

Status Run(const ProfileOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const Profile kernels, ReadKernels(options));
  UCUDNN_RETURN_IF_ERROR(CheckOneKernel(kernels));
  const KernelProfile& kernel = kernels.kernels[0];
  const auto front = SolvePareto(
      kernel.points, {options.batch, options.workspace_limit, options.policy});
  if (!front) {
    return Within(fmt::format("{} {} {}", kernel.id.layer, Name(kernel.id.op),
                              Name(kernel.id.precision)),
                  front.error());
  }
  return Print(options.output, FrontJson(*front),
               [&front] { return FrontTable(*front); });
}

}  // namespace

void AddSolvePareto(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "pareto",
      "List one kernel's divisions that none beats in time and workspace");
  auto options = std::make_shared<ProfileOptions>();
  AddProfileOptions(command, options.get());
  command->callback(
      [options, chosen] { *chosen = [options] { return Run(*options); }; });
}

}  // namespace ucudnn::ctl
