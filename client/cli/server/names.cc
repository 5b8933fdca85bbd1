#include "client/cli/server/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <set>

#include "base/device_kind.h"
#include "base/service/help.h"
#include "base/service/host.h"
#include "base/text.h"
#include "base/units.h"
#include "client/cli/server/pages.h"

namespace ucudnn::ctl {
namespace {

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return lower;
}

std::vector<std::string> Parts(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::string ShortKind(const std::string& kind) {
  const auto parsed = ParseDeviceKind(kind);
  if (!parsed) return kind;
  const std::vector<std::string> words = Parts(parsed->model, ' ');
  std::string name = words.back();
  for (const std::string& word : words) {
    if (word.find_first_of("0123456789") != std::string::npos) {
      name = word;
      break;
    }
  }
  return fmt::format("{}/{}u", LowerCase(name), parsed->units);
}

bool MatchesKind(const std::string& text, const std::string& kind) {
  if (text == kind) return true;
  const auto parsed = ParseDeviceKind(kind);
  if (!parsed || text.empty()) return false;
  std::vector<std::string> wanted = Parts(LowerCase(text), '/');
  if (LowerCase(parsed->model).find(wanted[0]) == std::string::npos) {
    return false;
  }
  const std::vector<std::string> rest =
      Parts(LowerCase(kind.substr(parsed->model.size())), '/');
  std::size_t at = 0;
  for (std::size_t i = 1; i < wanted.size(); ++i) {
    while (at < rest.size() && rest[at] != wanted[i]) ++at;
    if (at++ == rest.size()) return false;
  }
  return true;
}

Result<std::vector<std::string>> KnownKinds(Connection& connection) {
  std::set<std::string> kinds;
  UCUDNN_ASSIGN_OR_RETURN(const auto devices,
                          AllPages(connection, &Stub::ListDevices,
                                   &v1::ListDevicesResponse::devices));
  for (const v1::Device& device : devices.devices()) {
    kinds.insert(device.kind());
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto profiles,
                          AllPages(connection, &Stub::ListProfiles,
                                   &v1::ListProfilesResponse::profiles));
  for (const v1::ProfileSummary& profile : profiles.profiles()) {
    kinds.insert(profile.id());
  }
  return std::vector<std::string>(kinds.begin(), kinds.end());
}

Result<std::string> KindNamed(Connection& connection, const std::string& text) {
  if (ParseDeviceKind(text)) return text;
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> kinds,
                          KnownKinds(connection));
  if (const auto number = ParseInteger(text, 1, std::ssize(kinds)); number) {
    return kinds[static_cast<std::size_t>(*number - 1)];
  }
  std::vector<std::string> matching;
  for (const std::string& kind : kinds) {
    if (MatchesKind(text, kind)) matching.push_back(kind);
  }
  if (matching.size() == 1) return matching[0];
  if (kinds.empty()) {
    return Fail(Code::kInvalidArgument,
                "there is no device kind '{}': no device is known yet",
                Excerpt(text));
  }
  const bool none = matching.empty();
  return Fail(Code::kInvalidArgument, "{} '{}'{} {}",
              none ? "there is no device kind" : "several kinds match",
              Excerpt(text), none ? "; known are" : ":",
              fmt::join(none ? kinds : matching, ", "));
}

Result<std::vector<std::string>> KindsNamed(
    Connection& connection, const std::vector<std::string>& texts) {
  std::vector<std::string> kinds;
  for (const std::string& text : texts) {
    const bool whole = ParseDeviceKind(text).has_value();  // may have commas
    for (const std::string& part :
         whole ? std::vector{text} : Parts(text, ',')) {
      UCUDNN_ASSIGN_OR_RETURN(kinds.emplace_back(),
                              KindNamed(connection, part));
    }
  }
  return kinds;
}

Result<std::string> UniquePrefix(std::string_view what, const std::string& text,
                                 const std::vector<std::string>& ids) {
  std::vector<std::string> matching;
  for (const std::string& id : ids) {
    if (id == text) return id;
    if (id.starts_with(text)) matching.push_back(id);
  }
  if (matching.size() == 1) return matching[0];
  if (matching.empty()) {
    return Fail(Code::kNotFound, "there is no {} '{}'{}", what, Excerpt(text),
                DidYouMean(text, ids));
  }
  matching.resize(std::min<std::size_t>(matching.size(), 5));
  return Fail(Code::kInvalidArgument, "'{}' begins several {}s: {}",
              Excerpt(text), what, fmt::join(matching, ", "));
}

Result<std::string> NetworkNamed(Connection& connection,
                                 const std::string& text) {
  const auto networks = AllPages(connection, &Stub::ListNetworks,
                                 &v1::ListNetworksResponse::networks);
  if (!networks) return text;
  std::vector<std::string> names;
  for (const v1::Network& network : networks->networks()) {
    if (network.name() == text) return text;
    names.push_back(network.name());
  }
  return Fail(Code::kNotFound, "there is no network '{}'{}", Excerpt(text),
              DidYouMean(text, names));
}

Result<std::string> JobNamed(Connection& connection, const std::string& text) {
  constexpr std::size_t kUuid = 36;
  if (text.size() == kUuid) return text;
  UCUDNN_ASSIGN_OR_RETURN(
      const auto jobs,
      AllPages(connection, &Stub::ListJobs, &v1::ListJobsResponse::jobs));
  std::vector<std::string> ids;
  for (const v1::Job& job : jobs.jobs()) ids.push_back(job.id());
  return UniquePrefix("job", text, ids);
}

Result<std::string> NodeNamed(Connection& connection, const std::string& text) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto agents,
      AllPages(connection, &Stub::ListAgents, &v1::ListAgentsResponse::agents));
  std::vector<std::string> ids;
  std::vector<std::string> same;
  for (const v1::Agent& agent : agents.agents()) {
    ids.push_back(agent.id());
    if (SameHost(agent.id(), text)) same.push_back(agent.id());
  }
  if (same.size() == 1) return same[0];
  return UniquePrefix("node", text, ids);
}

Result<std::string> DeviceNamed(Connection& connection,
                                const std::string& text) {
  UCUDNN_ASSIGN_OR_RETURN(const auto devices,
                          AllPages(connection, &Stub::ListDevices,
                                   &v1::ListDevicesResponse::devices));
  std::vector<std::string> ids;
  for (const v1::Device& device : devices.devices()) ids.push_back(device.id());
  return UniquePrefix("device", text, ids);
}

std::string WhoAmI() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  gethostname(host.data(), host.size() - 1);
  const passwd* user = getpwuid(geteuid());
  return fmt::format(
      "{}@{}",
      user == nullptr ? std::to_string(geteuid()) : std::string(user->pw_name),
      host.data());
}

void AddReasonOption(CLI::App* command, std::string* reason) {
  AddTextOption(command, "--reason", "TEXT", reason,
                "Why, for the record that `ucudnn history` shows");
}

}  // namespace ucudnn::ctl
