#include "coordinator/security/principal.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::string_view kScheme = "spiffe://";

}  // namespace

std::string_view Name(Role role) {
  switch (role) {
    case Role::kAgent:
      return "agent";
    case Role::kJob:
      return "job";
    case Role::kViewer:
      return "viewer";
    case Role::kOperator:
      return "operator";
    case Role::kAdmin:
      return "admin";
    case Role::kCoordinator:
      return "coordinator";
  }
  return "";
}

Result<Role> ParseRole(std::string_view text) {
  for (const Role role : kRoles) {
    if (Name(role) == text) return role;
  }
  return Fail(Code::kInvalidArgument,
              "there is no role '{}'; agent, job, viewer, operator, admin and "
              "coordinator are accepted",
              Excerpt(std::string(text)));
}

Status CheckPrincipalName(std::string_view what, std::string_view name) {
  const bool plain = std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '=' ||
           c == '+' || c == '-';
  });
  if (plain && !name.empty() && name.size() <= 128) return {};
  return Fail(Code::kInvalidArgument,
              "{} is '{}'; 1 to 128 letters, digits and ._=+- are accepted",
              what, Excerpt(std::string(name)));
}

std::string ToUri(const Principal& principal) {
  return fmt::format("{}{}/{}/{}", kScheme, principal.cluster,
                     Name(principal.role), principal.name);
}

std::string NameOf(const Principal& principal) {
  return fmt::format("{} {}", Name(principal.role), principal.name);
}

Result<Principal> ParsePrincipal(std::string_view uri) {
  const auto refuse = [&] {
    return Fail(Code::kInvalidArgument,
                "'{}' is not spiffe://CLUSTER/ROLE/NAME",
                Excerpt(std::string(uri)));
  };
  if (!uri.starts_with(kScheme)) return refuse();
  std::vector<std::string_view> parts;
  for (std::string_view rest = uri.substr(kScheme.size());;) {
    const std::size_t slash = rest.find('/');
    parts.push_back(rest.substr(0, slash));
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (parts.size() != 3 || !CheckPrincipalName("cluster", parts[0]) ||
      !CheckPrincipalName("name", parts[2])) {
    return refuse();
  }
  UCUDNN_ASSIGN_OR_RETURN(const Role role, ParseRole(parts[1]));
  return Principal{std::string(parts[0]), role, std::string(parts[2])};
}

}  // namespace ucudnn
