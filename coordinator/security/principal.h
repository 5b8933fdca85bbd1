#ifndef UCUDNN_COORDINATOR_SECURITY_PRINCIPAL_H_
#define UCUDNN_COORDINATOR_SECURITY_PRINCIPAL_H_

// Who calls a coordinator, as a certificate's name says it:
//
//   spiffe://CLUSTER/{agent,job,viewer,operator,admin,coordinator}/NAME

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ucudnn {

// A coordinator's certificate names it to clients; it makes no calls.
enum class Role { kAgent, kJob, kViewer, kOperator, kAdmin, kCoordinator };
inline constexpr std::array kRoles = {Role::kAgent,  Role::kJob,
                                      Role::kViewer, Role::kOperator,
                                      Role::kAdmin,  Role::kCoordinator};

std::string_view Name(Role role);
// kInvalidArgument, naming what is accepted.
Result<Role> ParseRole(std::string_view text);

struct Principal {
  std::string cluster;
  Role role = Role::kViewer;
  std::string name;

  friend bool operator==(const Principal&, const Principal&) = default;
};

// kInvalidArgument unless `name` is 1 to 128 letters, digits and ._=+-, so that
// it needs no escaping in addresses, files and certificates.
Status CheckPrincipalName(std::string_view what, std::string_view name);
std::string ToUri(const Principal& principal);
// "operator alice"
std::string NameOf(const Principal& principal);
// kInvalidArgument if the text is not of that form.
Result<Principal> ParsePrincipal(std::string_view uri);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_SECURITY_PRINCIPAL_H_
