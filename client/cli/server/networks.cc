// What plans are made for: networks, and training steps of frameworks.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/onnx/onnx.h"
#include "client/cli/network_options.h"
#include "client/cli/server/list.h"
#include "client/cli/server/names.h"
#include "client/cli/server/pages.h"
#include "client/cli/server/remove.h"
#include "client/cli/server/server.h"
#include "proto/json.h"

namespace ucudnn::ctl {
namespace {

List Networks() {
  return {
      .columns = {Plain("NETWORK", "name"), Plain("REVISION", "revision"),
                  Plain("FORMAT", "format"), Count("CONVOLUTIONS", "layers"),
                  Age("UPDATED", "updated_ms")},
      .id = "name",
      .fetch = Fetch(&Stub::ListNetworks, &v1::ListNetworksResponse::networks)};
}

struct PutOptions {
  std::string name;
  std::string path;
  InputShapes shapes;
  OutputFormat format = OutputFormat::kTable;
};

// Coordinators take requests of 64 MiB.
constexpr Bytes kMaxSent = 60_MiB;

Status Put(const Server& server, const PutOptions& options) {
  const std::string& path = options.path;
  UCUDNN_ASSIGN_OR_RETURN(std::string content,
                          OfInput(ReadNetworkContents(path, {})));
  if (!IsNetworkCsv(content)) {
    UCUDNN_ASSIGN_OR_RETURN(content, OfInput(WithoutWeights(content, path)));
  }
  if (content.size() > std::size_t(kMaxSent.count())) {
    return Fail(Code::kInvalidArgument,
                "{}: it has {} without its weights; up to {} are sent. Its "
                "convolutions alone are smaller: ucudnn networks convert {} "
                "FILE.csv",
                path, FormatBytes(Bytes(std::int64_t(content.size()))),
                FormatBytes(kMaxSent), path);
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  v1::PutNetworkRequest request;
  request.set_name(options.name);
  for (const InputShape& shape : options.shapes) {
    request.add_input_shape(ToText(shape));
  }
  request.set_content(std::move(content));
  const Result<v1::Network> network =
      connection->Call(&Stub::PutNetwork, request);
  if (!network) {
    return Within(fmt::format("{} from {}", options.name, path),
                  network.error());
  }
  return Print(options.format, ToJson(*network), [&] {
    return fmt::format("network {}: {} convolutions, revision {}\n",
                       OneLine(network->name()), network->layers_size(),
                       network->revision());
  });
}

struct ConvertOptions {
  std::string from;
  std::string to;
  InputShapes shapes;
};

Status Convert(const ConvertOptions& options) {
  // The convolutions' shapes do not depend on the batch size.
  UCUDNN_ASSIGN_OR_RETURN(
      const Network network,
      OfInput(ReadNetworkFile(options.from, BatchSize(1), options.shapes)));
  return WriteText(options.to, ToCsv(network));
}

List Steps() {
  return {.columns = {Plain("STEP", "name"), Plain("REVISION", "revision"),
                      Count("KINDS", "kinds"), Plain("PUT BY", "put_by"),
                      Age("UPDATED", "updated_ms")},
          .id = "name",
          .fetch = Fetch(&Stub::ListSteps, &v1::ListStepsResponse::steps)};
}

std::string StepText(const v1::Step& step) {
  Table table({"DEVICE KIND", "BATCH", "TIME", "PEAK"});
  for (const v1::StepKind& kind : step.kinds()) {
    for (const v1::MeasuredStep& measured : kind.steps()) {
      table.AddRow({kind.device_kind(), std::to_string(measured.batch()),
                    HumanTime(Nanoseconds(measured.time_ns())) +
                        (kind.recorded() ? " (recorded)" : ""),
                    measured.peak_bytes() > 0
                        ? HumanBytes(Bytes(measured.peak_bytes()))
                        : "-"});
    }
  }
  return fmt::format(
      "step {}, revision {}, put {}{}\n\n{}", OneLine(step.name()),
      step.revision(), Ago(step.updated_ms()),
      step.put_by().empty() ? "" : " by " + OneLine(step.put_by()),
      table.Text());
}

// What coordinators take.
constexpr Bytes kMaxSentStep = 8_MiB;

struct StepOptions {
  std::string name;
  std::string path;
  OutputFormat format = OutputFormat::kTable;
};

Status PutStep(const Server& server, const StepOptions& options) {
  v1::PutStepRequest request;
  request.set_name(options.name);
  request.set_who(WhoAmI());
  UCUDNN_ASSIGN_OR_RETURN(*request.mutable_content(),
                          OfInput(ReadFile(options.path, kMaxSentStep)));
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  const Result<v1::Step> step = connection->Call(&Stub::PutStep, request);
  if (!step) return Within(options.path, step.error());
  return Print(options.format, ToJson(*step), [&] {
    return fmt::format("step {}: {} kinds, revision {}\n",
                       OneLine(step->name()), step->kinds_size(),
                       step->revision());
  });
}

Status ShowStep(const Server& server, const StepOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  UCUDNN_ASSIGN_OR_RETURN(const v1::Step step,
                          connection->Call(&Stub::GetStep, ById(options.name)));
  return Print(options.format, ToJson(step), [&] { return StepText(step); });
}

}  // namespace

void AddNetworkCommands(CLI::App& app, const Server& server, Chosen* chosen) {
  CLI::App* networks = app.add_subcommand(
      "networks", "List the networks that plans can be made for");
  AddList(networks, server, Networks(), chosen);
  AddRemove(networks, server,
            {.what = "network",
             .id = "NETWORK",
             .remove = &Stub::DeleteNetwork,
             .named = NetworkNamed},
            chosen);
  const auto options = std::make_shared<PutOptions>();
  CLI::App* put = networks->add_subcommand(
      "put",
      "Register a network: an ONNX model, or its convolutions as CSV\n"
      "(name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups)");
  put->add_option("NAME", options->name, "The name to register it under")
      ->required();
  put->add_option("FILE", options->path, "The ONNX or CSV file")->required();
  AddInputShapeOption(put, &options->shapes);
  AddOutputOption(put, &options->format);
  OnChosen(put, chosen, [&server, options] { return Put(server, *options); });
  const auto conversion = std::make_shared<ConvertOptions>();
  CLI::App* convert = networks->add_subcommand(
      "convert",
      "Write the convolutions of a network as CSV, which UCUDNN_NETWORK_FILE\n"
      "names; calls no coordinator");
  convert->add_option("FILE", conversion->from, "The ONNX or CSV file")
      ->required();
  convert->add_option("CSV", conversion->to,
                      "Output file; default: standard output");
  AddInputShapeOption(convert, &conversion->shapes);
  OnChosen(convert, chosen, [conversion] { return Convert(*conversion); });
}

void AddStepCommands(CLI::App& app, const Server& server, Chosen* chosen) {
  CLI::App* steps = app.add_subcommand(
      "steps",
      "List the frameworks' training steps that plans can be made for");
  AddList(steps, server, Steps(), chosen);
  AddRemove(
      steps, server,
      {.what = "step", .id = "STEP", .remove = &Stub::DeleteStep, .named = {}},
      chosen);
  const auto put = std::make_shared<StepOptions>();
  CLI::App* put_command = steps->add_subcommand(
      "put",
      "Store what a framework measured or recorded of its training step, as\n"
      "JSON; see docs/steps.md");
  put_command->add_option("NAME", put->name, "The name to store it under")
      ->required();
  put_command->add_option("FILE", put->path, "The JSON file")->required();
  AddOutputOption(put_command, &put->format);
  OnChosen(put_command, chosen,
           [&server, put] { return PutStep(server, *put); });
  const auto shown = std::make_shared<StepOptions>();
  CLI::App* show = steps->add_subcommand(
      "show", "Show one step: its times and peaks by kind and batch");
  show->add_option("STEP", shown->name, "Its name")->required();
  AddOutputOption(show, &shown->format);
  OnChosen(show, chosen, [&server, shown] { return ShowStep(server, *shown); });
}

}  // namespace ucudnn::ctl
