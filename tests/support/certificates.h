#ifndef UCUDNN_TESTS_SUPPORT_CERTIFICATES_H_
#define UCUDNN_TESTS_SUPPORT_CERTIFICATES_H_

// A cluster's certificates, in a folder of their own.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/service/credentials.h"
#include "coordinator/security/guard.h"
#include "coordinator/security/issue.h"
#include "coordinator/security/tokens.h"
#include "tests/support/process.h"

namespace ucudnn::test {

class Certificates {
 public:
  explicit Certificates(const std::string& cluster = "test") {
    Check(InitAuthority(folder_.path(), cluster, std::chrono::hours(1)));
    RenewCoordinator();
    AddToken(Role::kViewer, "nobody");
  }

  // What a coordinator serves with.
  GuardFiles guard() const {
    return {.ca = folder_ / "ca.crt",
            .cert = folder_ / "coordinator-c.crt",
            .key = folder_ / "coordinator-c.key",
            .revoked = folder_ / "revoked.pem",
            .tokens = folder_ / "tokens"};
  }
  CredentialFiles ca() const {
    return {.ca = folder_ / "ca.crt", .cert = {}, .key = {}, .token = {}};
  }
  CredentialFiles Issue(
      Role role, const std::string& name,
      std::chrono::seconds lifetime = std::chrono::hours(1)) const {
    const auto cert = IssueCertificate(
        folder_.path(),
        {.role = role, .name = name, .hosts = {}, .lifetime = lifetime});
    Check(cert);
    CredentialFiles files = ca();
    files.cert = *cert;
    files.key = cert->substr(0, cert->size() - 3) + "key";
    return files;
  }
  // Returns the token.
  std::string AddToken(Role role, const std::string& name) {
    const std::string token = NewToken();
    tokens_ += TokenLine({.cluster = {}, .role = role, .name = name}, token);
    Check(ReplaceFile(folder_ / "tokens", tokens_, 0600));
    return token;
  }
  void RevokeTokens() {
    tokens_.clear();
    Check(ReplaceFile(folder_ / "tokens", tokens_, 0600));
  }
  void Revoke(const CredentialFiles& files) const {
    Check(RevokeCertificate(folder_.path(), files.cert));
  }
  // A new certificate for the coordinator, in place of the old one.
  void RenewCoordinator(
      const std::vector<std::string>& hosts = {"127.0.0.1"},
      std::chrono::seconds lifetime = std::chrono::hours(1)) const {
    Check(IssueCertificate(folder_.path(), {.role = Role::kCoordinator,
                                            .name = "c",
                                            .hosts = hosts,
                                            .lifetime = lifetime}));
  }

 private:
  template <class T>
  static void Check(const Result<T>& result) {
    if (!result) {
      std::fprintf(stderr, "%s\n", result.error().message.c_str());
    }
    UCUDNN_CHECK(result.has_value());
  }

  TemporaryFolder folder_;
  std::string tokens_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_CERTIFICATES_H_
