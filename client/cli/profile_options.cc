#include "client/cli/profile_options.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <utility>

#include "base/files/file.h"
#include "base/plan/prediction.h"

namespace ucudnn::ctl {
namespace {

std::string Gain(Nanoseconds time, std::optional<Nanoseconds> undivided) {
  if (!undivided.has_value() || time.count() == 0) return "-";
  return fmt::format("{:.2f}x", static_cast<double>(undivided->count()) /
                                    static_cast<double>(time.count()));
}

std::string TimeOrDash(std::optional<Nanoseconds> time) {
  return time.has_value() ? HumanTime(*time) : "-";
}

}  // namespace

void AddBatchOption(CLI::App* command, BatchSize* batch) {
  command
      ->add_option_function<std::int64_t>(
          "--batch", [batch](std::int64_t value) { *batch = BatchSize(value); },
          "The mini-batch size")
      ->check(CLI::Range(std::int64_t{1}, kMaxBatchSize.count()))
      ->option_text("N")
      ->required();
}

void AddBatchPolicyOption(CLI::App* command, BatchPolicy* policy) {
  AddBatchPolicyOption(command, "--batch-policy", std::string(Name(*policy)),
                       [policy](BatchPolicy value) { *policy = value; });
}

void AddBatchPolicyOption(CLI::App* command, const std::string& flags,
                          const std::string& unless_given,
                          std::function<void(BatchPolicy)> store) {
  AcceptNames(command->add_option_function<std::string>(
                  flags,
                  [store = std::move(store)](const std::string& name) {
                    store(*ParseBatchPolicy(name));
                  },
                  fmt::format("Which micro-batch sizes to use: {}; {} unless "
                              "given",
                              BatchPolicyNames(), unless_given)),
              NamesOf(kBatchPolicies))
      ->option_text("POLICY");
}

void AddMaxErrorOption(CLI::App* command, double* max_error) {
  AddReadOption(
      command, "--max-error", max_error, ParseMaxError,
      "The largest error that algorithms may have, relative to the largest "
      "element of a result, as far as it is measured; unless given, what "
      "rounding in the precision explains (FP32: 1e-5), or 4 times that of "
      "the most accurate algorithm")
      ->option_text("ERROR");
}

void AddProfileOptions(CLI::App* command, ProfileOptions* options,
                       std::string* network_file) {
  AddTextOption(command, "--profile", "FILE", &options->profile,
                "Measurements, CSV or gzipped CSV")
      ->required();
  AddBatchOption(command, &options->batch);
  AddBytesOption(command, "--workspace-limit", &options->workspace_limit,
                 "The workspace limit, such as 64MiB")
      ->required();
  AddBatchPolicyOption(command, &options->policy);
  ProfileFilter& filter = options->filter;
  if (network_file != nullptr) {
    AddTextOption(command, "--network", "FILE", network_file,
                  "The network's graph, an ONNX model")
        ->required();
  }
  command
      ->add_option(network_file == nullptr ? "--network" : "--profile-network",
                   filter.network, "Only this network of the profile")
      ->option_text("NAME");
  AddTextOption(command, "--layer", "NAME", &filter.layer, "Only this layer");
  AcceptNames(command->add_option("--op", filter.op,
                                  "Only this operation: forward, "
                                  "backward_data or backward_filter"),
              NamesOf(kConvOps))
      ->option_text("OP");
  AcceptNames(command->add_option("--precision", filter.precision,
                                  "The precision to plan for: FP32, TF32, "
                                  "TRUE_HALF, PSEUDO_HALF or BF16"),
              NamesOf(kPrecisions))
      ->option_text("PRECISION");
  AddTextOption(command, "--device", "NAME", &filter.device,
                "Only measurements of this device");
  AcceptNames(command->add_option("--layout", filter.layout,
                                  "The data layout: NCHW or NHWC"),
              NamesOf(kLayouts))
      ->option_text("LAYOUT");
  AddMaxErrorOption(command, &filter.max_error);
  AddOutputOption(command, &options->output);
}

Result<Profile> SelectFrom(const Profile& profile,
                           const ProfileOptions& options) {
  // The flags ask for what the file does not hold: a fault of the request.
  Result<Profile> selected = OfInput(SelectKernels(profile, options.filter));
  if (selected) return selected;
  return Within(options.profile, std::move(selected).error());
}

Result<Profile> ReadKernels(const ProfileOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const Profile profile,
                          OfInput(ReadProfileFile(options.profile)));
  return SelectFrom(profile, options);
}

std::string PlanTable(const WorkspacePlan& plan) {
  bool has_offsets = false;
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.offset.has_value()) has_offsets = true;
  }
  std::vector<std::string> header = {
      "LAYER", "OP", "MICRO-BATCHES", "WORKSPACE", "TIME", "UNDIVIDED", "GAIN"};
  if (has_offsets) header.insert(header.begin() + 4, "OFFSET");
  Table table(header);
  for (const KernelPlan& kernel : plan.kernels) {
    std::vector<std::string> row = {kernel.layer,
                                    std::string(Name(kernel.op)),
                                    DivisionText(kernel.micro_batches),
                                    HumanBytes(kernel.workspace),
                                    HumanTime(kernel.time),
                                    TimeOrDash(kernel.undivided_time),
                                    Gain(kernel.time, kernel.undivided_time)};
    if (has_offsets) {
      row.insert(row.begin() + 4, kernel.offset.has_value()
                                      ? FormatBytes(*kernel.offset)
                                      : std::string("-"));
    }
    table.AddRow(std::move(row));
  }
  return table.Text() +
         fmt::format(
             "\n{} kernels, batch {}: {}, undivided {} (gain {})\n"
             "lower bound {} ({}), workspace {} in all under a limit of {}{}\n",
             plan.kernels.size(), plan.batch.count(),
             HumanTime(plan.total_time), TimeOrDash(plan.undivided_time),
             Gain(plan.total_time, plan.undivided_time),
             HumanTime(plan.lower_bound),
             plan.optimal ? "optimal" : "not proven optimal",
             HumanBytes(plan.total_workspace), HumanBytes(plan.workspace_limit),
             has_offsets ? "" : " for each kernel");
}

}  // namespace ucudnn::ctl
