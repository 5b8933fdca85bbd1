#include "client/cli/server/completion.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/plan/plan.h"
#include "base/text.h"
#include "client/cli/server/names.h"
#include "client/cli/server/pages.h"
#include "client/cli/server/server.h"
#include "client/config/coordinators.h"
#include "client/config/environment.h"

namespace ucudnn::ctl {
namespace {

using Words = std::vector<std::string>;

// Of the newest entries; nobody chooses from more.
constexpr int kMostEntries = 200;

template <class Response, class Entry>
Words Ids(
    Connection& connection, Connection::Method<v1::ListRequest, Response> list,
    const google::protobuf::RepeatedPtrField<Entry>& (Response::*entries)()
        const) {
  v1::ListRequest request;
  request.set_limit(kMostEntries);
  Words ids;
  const Result<Response> page = connection.Call(list, request);
  if (!page) return ids;
  for (const Entry& entry : ((*page).*entries)()) {
    ids.push_back(PageKey(entry));
  }
  return ids;
}

Words ShortKinds(Connection& connection) {
  Words words;
  const Result<Words> kinds = KnownKinds(connection);
  if (!kinds) return words;
  for (const std::string& kind : *kinds) words.push_back(ShortKind(kind));
  return words;
}

// What the coordinator calls things; the help names them in capitals.
Words NamesAt(std::string_view what, Connection& connection) {
  if (what == "NETWORK") {
    return Ids(connection, &Stub::ListNetworks,
               &v1::ListNetworksResponse::networks);
  }
  if (what == "STEP") {
    return Ids(connection, &Stub::ListSteps, &v1::ListStepsResponse::steps);
  }
  if (what == "NODE") {
    return Ids(connection, &Stub::ListAgents, &v1::ListAgentsResponse::agents);
  }
  if (what == "DEVICE") {
    return Ids(connection, &Stub::ListDevices,
               &v1::ListDevicesResponse::devices);
  }
  if (what == "JOB") {
    return Ids(connection, &Stub::ListJobs, &v1::ListJobsResponse::jobs);
  }
  if (what == "PLAN") {
    return Ids(connection, &Stub::ListPlans, &v1::ListPlansResponse::plans);
  }
  if (what == "CAMPAIGN") {
    return Ids(connection, &Stub::ListCampaigns,
               &v1::ListCampaignsResponse::campaigns);
  }
  return ShortKinds(connection);
}

// The values of enumerations that the coordinator, not the command, checks.
const std::map<std::string, Words>& KnownWords() {
  static const std::map<std::string, Words> kWords = {
      {"precision", NamesOf(kPrecisions)},
      {"layout", NamesOf(kLayouts)},
      {"op", NamesOf(kConvOps)},
      {"batch-policy", NamesOf(kBatchPolicies)},
      {"output", {"table", "wide", "json", "yaml", "name", "jsonpath="}}};
  return kWords;
}

// The value of --coordinator among the arguments; empty if there is none.
std::string Named(int argc, const char* const* argv) {
  constexpr std::string_view kOption = "--coordinator";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == kOption && i + 1 < argc) return argv[i + 1];
    if (word.starts_with(kOption) &&
        word.substr(kOption.size()).starts_with('=')) {
      return std::string(word.substr(kOption.size() + 1));
    }
  }
  return "";
}

Words Ask(std::string_view what, const std::string& coordinators,
          const CredentialFiles& credentials) {
  auto list = ParseCoordinators(coordinators, "--coordinator");
  if (!list) return {};
  auto connection =
      Connection::Open(*std::move(list), {.credentials = credentials});
  if (!connection || !(*connection)->Reach(Milliseconds(1000))) return {};
  Words names = NamesAt(what, **connection);
  // A word is a line.
  std::erase_if(names, [](const auto& name) { return !IsPlainText(name); });
  return names;
}

}  // namespace

void AddCompletionCommand(CLI::App& app, Chosen* chosen) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand(
      "completion",
      "Print a shell script that completes commands, options, values and names "
      "of all programs; use it by source <(ucudnn completion bash)");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  OnChosen(completion, chosen, [shell]() -> Status {
    return WriteText("", std::string(CompletionScript(*shell)));
  });
}

ValuesOf NamesFrom(std::string coordinators, CredentialFiles credentials,
                   int argc, const char* const* argv) {
  if (const char* set = std::getenv("UCUDNN_COORDINATOR")) coordinators = set;
  if (std::string named = Named(argc, argv); !named.empty()) {
    coordinators = std::move(named);
  }
  const CredentialFiles named = CredentialsFrom(ProcessEnvironment());
  if (named != CredentialFiles()) credentials = named;
  return [coordinators = std::move(coordinators),
          credentials = std::move(credentials)](const CLI::Option& option) {
    for (const std::string& name : option.get_lnames()) {
      const auto words = KnownWords().find(name);
      if (words != KnownWords().end()) return words->second;
    }
    const std::string what =
        option.get_positional() ? option.get_name() : option.get_option_text();
    for (const std::string_view known :
         {"NETWORK", "STEP", "NODE", "DEVICE", "JOB", "PLAN", "CAMPAIGN",
          "KIND", "KIND[,...]"}) {
      if (what == known) return Ask(what, coordinators, credentials);
    }
    return Words();
  };
}

}  // namespace ucudnn::ctl
