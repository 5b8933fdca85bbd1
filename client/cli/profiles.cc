// What was measured of kinds of devices: listed, and moved between
// coordinators.

#include <cstdio>
#include <memory>

#include "base/files/file.h"
#include "client/cli/profile_csv.h"
#include "client/cli/server.h"
#include "proto/json.h"

namespace ucudnn::ctl {
namespace {

Status List(const Server& server, OutputFormat format) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  v1::ListRequest request;
  request.set_limit(1000);
  UCUDNN_ASSIGN_OR_RETURN(const auto response,
                          connection->ListProfiles(request));
  return Print(format, ToJson(response)["profiles"], [&] {
    Table table({"KIND", "PROBLEMS", "MEASUREMENTS", "STALE", "LAST MEASURED",
                 "UNDER"});
    for (const v1::ProfileSummary& profile : response.profiles()) {
      table.AddRow({profile.id(), std::to_string(profile.problems()),
                    std::to_string(profile.points()),
                    std::to_string(profile.stale_points()),
                    Ago(profile.last_measured_ms()),
                    fmt::format("{}", fmt::join(profile.drivers(), "; "))});
    }
    return table.Text();
  });
}

Status Export(const Server& server, const std::string& kind,
              const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  std::vector<std::string> kinds = {kind};
  if (kind.empty()) {
    v1::ListRequest request;
    request.set_limit(1000);
    UCUDNN_ASSIGN_OR_RETURN(const auto response,
                            connection->ListProfiles(request));
    kinds.clear();
    for (const v1::ProfileSummary& profile : response.profiles()) {
      kinds.push_back(profile.id());
    }
    if (kinds.empty()) {
      return Fail(Code::kNotFound, "nothing has been measured yet");
    }
  }
  std::vector<v1::Profile> profiles;
  for (const std::string& each : kinds) {
    UCUDNN_ASSIGN_OR_RETURN(v1::Profile profile, connection->GetProfile(each));
    profiles.push_back(std::move(profile));
  }
  return WriteText(path, ProfilesToCsv(profiles));
}

Status Import(const Server& server, const std::string& path,
              OutputFormat format) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                          OfInput(ReadFile(path, 1_GiB)));
  UCUDNN_ASSIGN_OR_RETURN(const auto profiles, ProfilesFromCsv(text, path));
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  v1::ListProfilesResponse imported;
  for (const v1::Profile& profile : profiles) {
    v1::ProfileSummary& summary = *imported.add_profiles();
    summary.set_id(profile.id());
    // A problem at a time: messages have a largest size.
    for (const v1::ProblemProfile& problem : profile.problems()) {
      v1::Profile part;
      part.set_id(profile.id());
      *part.add_problems() = problem;
      const auto put = connection->PutProfile(part);
      if (!put) return Within(path, put.error());
      summary.set_problems(summary.problems() + put->problems());
      summary.set_points(summary.points() + put->points());
    }
  }
  return Print(format, ToJson(imported)["profiles"], [&] {
    std::string said;
    for (const v1::ProfileSummary& profile : imported.profiles()) {
      said += fmt::format("{}: {} problems, {} measurements\n", profile.id(),
                          profile.problems(), profile.points());
    }
    return said;
  });
}

}  // namespace

void AddProfileCommands(CLI::App& app, const Server& server, Chosen* chosen) {
  const auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  CLI::App* profiles = app.add_subcommand(
      "profiles", "List the device kinds that something is measured of");
  AddOutputOption(profiles, format.get());

  const auto kind = std::make_shared<std::string>();
  const auto path = std::make_shared<std::string>();
  CLI::App* out = profiles->add_subcommand(
      "export", "Write what was measured as CSV that import and solve read");
  out->add_option("--kind", *kind, "Of this kind of device; all unless given")
      ->option_text("KIND");
  out->add_option("file", *path, "The file; standard output unless given");
  out->callback([&server, kind, path, chosen] {
    *chosen = [&server, kind, path] { return Export(server, *kind, *path); };
  });
  const auto from = std::make_shared<std::string>();
  CLI::App* in = profiles->add_subcommand(
      "import", "Add what another coordinator exported");
  in->add_option("file", *from, "The file, plain or gzip")->required();
  AddOutputOption(in, format.get());
  in->callback([&server, from, format, chosen] {
    *chosen = [&server, from, format] {
      return Import(server, *from, *format);
    };
  });
  profiles->callback([&server, format, out, in, chosen] {
    if (out->parsed() || in->parsed()) return;
    *chosen = [&server, format] { return List(server, *format); };
  });
}

}  // namespace ucudnn::ctl
