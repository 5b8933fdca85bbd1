// What was measured of kinds of devices: listed, and moved between
// coordinators.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/device_kind.h"
#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/other_tasks.h"
#include "base/service/clock.h"
#include "base/training/json.h"
#include "client/cli/profile_network.h"
#include "client/cli/server/list.h"
#include "client/cli/server/names.h"
#include "client/cli/server/pages.h"
#include "client/cli/server/server.h"
#include "proto/convert.h"
#include "proto/json.h"

namespace ucudnn::ctl {
namespace {

List Profiles() {
  const auto under = [](const Json& profile) {
    const auto drivers = profile["drivers"].get<std::vector<std::string>>();
    return fmt::format("{}", fmt::join(drivers, "; "));
  };
  return {
      .columns = {Kind("KIND", "id"),
                  Plain("PROBLEMS", "problems"),
                  Plain("MEASUREMENTS", "points"),
                  Plain("STALE", "stale_points"),
                  Age("LAST MEASURED", "last_measured_ms"),
                  {"UNDER", "drivers", under}},
      .id = "id",
      .fetch = Fetch(&Stub::ListProfiles, &v1::ListProfilesResponse::profiles)};
}

struct ExportOptions {
  std::string kind;
  std::string network;
  bool stale = false;
  bool device_model = false;
  std::string path;
};

// Takes out the measurements that no plan is made from; returns how many.
int RemoveStale(v1::Profile* profile) {
  int removed = 0;
  for (v1::ProblemProfile& problem : *profile->mutable_problems()) {
    auto& all = *problem.mutable_measurements();
    const auto stale = std::stable_partition(
        all.begin(), all.end(),
        [](const v1::Measurement& m) { return !m.stale(); });
    removed += static_cast<int>(all.end() - stale);
    all.erase(stale, all.end());
  }
  return removed;
}

Status Export(const Server& server, const ExportOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  std::vector<std::string> kinds;
  if (!options.kind.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(kinds.emplace_back(),
                            KindNamed(*connection, options.kind));
  } else {
    UCUDNN_ASSIGN_OR_RETURN(const auto response,
                            AllPages(*connection, &Stub::ListProfiles,
                                     &v1::ListProfilesResponse::profiles));
    for (const v1::ProfileSummary& profile : response.profiles()) {
      kinds.push_back(profile.id());
    }
    if (kinds.empty()) {
      return Fail(Code::kNotFound, "nothing has been measured yet");
    }
  }
  v1::Network registered;
  std::optional<Network> network;
  if (!options.network.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(
        registered, connection->Call(&Stub::GetNetwork, ById(options.network)));
    UCUDNN_ASSIGN_OR_RETURN(network, FromProto(registered));
  }
  Profile all;
  int stale = 0;
  for (const std::string& kind : kinds) {
    UCUDNN_ASSIGN_OR_RETURN(v1::Profile message,
                            WholeProfile(*connection, kind));
    if (!options.stale) stale += RemoveStale(&message);
    UCUDNN_ASSIGN_OR_RETURN(Profile profile, FromProto(message));
    if (network) profile = ForNetwork(profile, *network, registered.hash());
    std::ranges::move(profile.kernels, std::back_inserter(all.kernels));
    std::ranges::move(profile.others, std::back_inserter(all.others));
  }
  if (network && all.kernels.empty()) {
    return Fail(Code::kNotFound, "nothing is measured of network '{}'",
                options.network);
  }
  if (stale > 0) {
    fmt::print(stderr,
               "ucudnn: {} measurements are left out: no device online has the "
               "driver that they were made under; --stale exports them too\n",
               stale);
  }
  return WriteText(options.path, ToCsv(all));
}

// Writes the kind's device model; of the only kind unless one is named.
Status ExportModel(const Server& server, const ExportOptions& options) {
  std::string kind = options.kind;
  if (kind.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
    UCUDNN_ASSIGN_OR_RETURN(kind, OnlyKind(*connection, "--kind"));
  }
  UCUDNN_ASSIGN_OR_RETURN(const DeviceModel model, MeasuredModel(server, kind));
  return WriteText(options.path, ToJson(model).dump(2) + "\n");
}

struct ImportOptions {
  std::string path;
  std::string network;
  std::string kind;
  std::optional<Bytes> complete;
  OutputFormat format = OutputFormat::kTable;
};

std::vector<KernelProfile*> AllOf(Profile* profile) {
  std::vector<KernelProfile*> all;
  for (KernelProfile& kernel : profile->kernels) all.push_back(&kernel);
  for (KernelProfile& tasks : profile->others) all.push_back(&tasks);
  return all;
}

// Names the kind of the file's only device.
Status SetKind(const std::string& kind, Profile* profile) {
  const std::vector<KernelProfile*> all = AllOf(profile);
  const std::string device = all.front()->id.device;
  for (const KernelProfile* kernel : all) {
    if (kernel->id.device != device) {
      return Fail(Code::kInvalidArgument,
                  "--kind names the kind of one device, but the file has '{}' "
                  "and '{}'",
                  device, kernel->id.device);
    }
  }
  for (KernelProfile* kernel : all) kernel->id.device = kind;
  return {};
}

// Adds what a coordinator must know: kinds and problems.
Status AddWhatIsMissing(const ImportOptions& options, Profile* profile) {
  if (!options.kind.empty()) {
    UCUDNN_RETURN_IF_ERROR(SetKind(options.kind, profile));
  }
  if (!options.network.empty()) {
    // Convolutions do not depend on the batch.
    UCUDNN_ASSIGN_OR_RETURN(const Network network,
                            ReadNetworkFile(options.network, BatchSize(1)));
    UCUDNN_ASSIGN_OR_RETURN(*profile, WithProblems(*profile, network));
  }
  for (KernelProfile* kernel : AllOf(profile)) {
    const KernelId& id = kernel->id;
    if (const auto kind = ParseDeviceKind(id.device); !kind) {
      return Fail(Code::kInvalidArgument,
                  "device {}; name the file's kind with --kind",
                  kind.error().message);
    }
    if (!kernel->problem && !IsOtherTasks(id.layer)) {
      return Fail(Code::kInvalidArgument,
                  "nothing tells which convolution {} {} of network '{}' is: "
                  "the file has no column 'problem'; name the network's file, "
                  "CSV or ONNX, with --network",
                  id.layer, Name(id.op), id.network);
    }
    if (!options.complete) continue;
    for (const MeasuredPoint& point : kernel->points) {
      kernel->complete.try_emplace(
          point.batch, Completeness{*options.complete, std::string()});
    }
  }
  return {};
}

// Adds a device model, as export writes it.
Status ImportModel(const Server& server, const ImportOptions& options,
                   std::string_view text) {
  UCUDNN_ASSIGN_OR_RETURN(const DeviceModel model,
                          ParseDeviceModel(text, options.path));
  v1::Profile profile;
  profile.set_id(options.kind.empty() ? model.name : options.kind);
  v1::MeasuredDeviceModel& measured = *profile.mutable_device_model();
  *measured.mutable_model() = ToProto(model);
  measured.set_measured_ms(SystemClock().NowMs());
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  const auto put = connection->Call(&Stub::PutProfile, profile);
  if (!put) return Within(options.path, put.error());
  return Print(options.format, ToJson(*put), [&] {
    return fmt::format("{}: its device model\n", OneLine(put->id()));
  });
}

Status Import(const Server& server, const ImportOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                          OfInput(ReadFile(options.path, 1_GiB)));
  if (text.starts_with('{')) return ImportModel(server, options, text);
  UCUDNN_ASSIGN_OR_RETURN(Profile profile,
                          OfInput(ParseProfileCsv(text, options.path)));
  if (Status added = OfInput(AddWhatIsMissing(options, &profile)); !added) {
    return Within(options.path, std::move(added).error());
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  v1::ListProfilesResponse imported;
  for (const v1::Profile& message : ToProto(profile)) {
    v1::ProfileSummary& summary = *imported.add_profiles();
    summary.set_id(message.id());
    // A problem at a time: messages have a largest size.
    for (const v1::ProblemProfile& problem : message.problems()) {
      v1::Profile part;
      part.set_id(message.id());
      *part.add_problems() = problem;
      const auto put = connection->Call(&Stub::PutProfile, part);
      if (!put) return Within(options.path, put.error());
      summary.set_problems(summary.problems() + put->problems());
      summary.set_points(summary.points() + put->points());
    }
  }
  return Print(options.format, ToJson(imported)["profiles"], [&] {
    std::string said;
    for (const v1::ProfileSummary& summary : imported.profiles()) {
      said += fmt::format("{}: {} problems, {} measurements\n",
                          OneLine(summary.id()), summary.problems(),
                          summary.points());
    }
    return said;
  });
}

}  // namespace

Result<v1::Profile> WholeProfile(Connection& connection,
                                 const std::string& kind) {
  v1::GetProfileRequest request;
  request.set_id(kind);
  v1::Profile whole;
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(v1::Profile page,
                            connection.Call(&Stub::GetProfile, request));
    whole.set_id(page.id());
    if (page.has_device_model()) {
      whole.mutable_device_model()->Swap(page.mutable_device_model());
    }
    if (page.problems().empty()) return whole;
    request.set_after(page.problems().rbegin()->problem());
    for (v1::ProblemProfile& problem : *page.mutable_problems()) {
      whole.add_problems()->Swap(&problem);
    }
  }
}

Result<DeviceModel> MeasuredModel(const Server& server,
                                  const std::string& kind) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  UCUDNN_ASSIGN_OR_RETURN(const std::string named,
                          KindNamed(*connection, kind));
  UCUDNN_ASSIGN_OR_RETURN(const v1::MeasuredDeviceModel measured,
                          connection->Call(&Stub::GetDeviceModel, ById(named)));
  return FromProto(measured.model());
}

void AddProfileCommands(CLI::App& app, const Server& server, Chosen* chosen) {
  CLI::App* profiles = app.add_subcommand(
      "profiles", "List the device kinds that something is measured of");
  AddList(profiles, server, Profiles(), chosen);

  const auto to = std::make_shared<ExportOptions>();
  CLI::App* out = profiles->add_subcommand(
      "export", "Write what was measured as CSV that import and solve read");
  AddTextOption(out, "--kind", "KIND", &to->kind,
                "Of this kind of device; all unless given");
  AddTextOption(out, "--network", "NETWORK", &to->network,
                "Of this registered network, by its layers, so that solve "
                "plans it; unless given, of every convolution and every "
                "network's other tasks once");
  out->add_flag("--stale", to->stale,
                "Also what was measured under a driver that no device online "
                "of the kind has now, which no plan is made from");
  out->add_flag("--device-model", to->device_model,
                "Instead of the measurements the kind's device model, as JSON "
                "that solve memory --device-model reads");
  out->add_option("FILE", to->path, "The file; standard output unless given");
  OnChosen(out, chosen, [&server, to] {
    return to->device_model ? ExportModel(server, *to) : Export(server, *to);
  });
  const auto from = std::make_shared<ImportOptions>();
  CLI::App* in = profiles->add_subcommand(
      "import", "Add what another coordinator exported, or any profile");
  in->add_option("FILE", from->path,
                 "The file, plain or gzip: measurements as CSV, or a device "
                 "model as JSON")
      ->required();
  AddTextOption(in, "--network", "FILE", &from->network,
                "The network's file, CSV or ONNX: for profiles that do not "
                "tell each layer's convolution in a column 'problem'");
  AddTextOption(in, "--kind", "KIND", &from->kind,
                "The kind of the file's device, such as 'NVIDIA "
                "H200/132u/139GiB/cudnn-9.19', where it names it otherwise");
  AddReadOption(
      in, "--complete-up-to", &from->complete, ParseBytes,
      "The file has every algorithm that needs no more workspace than "
      "this, so that plans need not wait for more measurements")
      ->option_text("SIZE");
  AddOutputOption(in, &from->format);
  OnChosen(in, chosen, [&server, from] { return Import(server, *from); });
}

}  // namespace ucudnn::ctl
