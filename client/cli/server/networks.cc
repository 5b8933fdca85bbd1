// The networks that plans are made for.

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
      .fetch = [](Connection& connection, v1::ListRequest page) {
        return Entries(connection, &Stub::ListNetworks,
                       &v1::ListNetworksResponse::networks, std::move(page));
      }};
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
                       network->name(), network->layers_size(),
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
  put->callback([&server, options, chosen] {
    *chosen = [&server, options] { return Put(server, *options); };
  });
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
  convert->callback([conversion, chosen] {
    *chosen = [conversion] { return Convert(*conversion); };
  });
}

}  // namespace ucudnn::ctl
