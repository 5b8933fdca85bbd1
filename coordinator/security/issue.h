#ifndef UCUDNN_COORDINATOR_SECURITY_ISSUE_H_
#define UCUDNN_COORDINATOR_SECURITY_ISSUE_H_

// A small certificate authority in a folder, for sites that have none:
//
//   FOLDER/ca.crt, ca.key    the authority
//   FOLDER/revoked.pem       its revocation list
//   FOLDER/ROLE-NAME.crt, .key
//
// The authority's key need not be on any host of the cluster. docs/guide/
// operations.md has the same as openssl command lines. ECDSA with P-256.

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/security/principal.h"

namespace ucudnn {

// Creates the authority of a cluster. kAlreadyExists if the folder has one.
Status InitAuthority(const std::string& folder, const std::string& cluster,
                     std::chrono::seconds lifetime);

struct IssueOptions {
  Role role = Role::kViewer;
  std::string name;
  // DNS names and IP addresses by which clients reach a coordinator; none for
  // others.
  std::vector<std::string> hosts;
  std::chrono::seconds lifetime = std::chrono::days(365);
};
// Issues a certificate and a new private key; returns the certificate's path.
// kInvalidArgument; kNotFound if the folder has no authority.
Result<std::string> IssueCertificate(const std::string& folder,
                                     const IssueOptions& options);
// Adds a certificate (a PEM file) to the revocation list.
Status RevokeCertificate(const std::string& folder, const std::string& path);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_SECURITY_ISSUE_H_
