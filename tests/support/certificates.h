#ifndef UCUDNN_TESTS_SUPPORT_CERTIFICATES_H_
#define UCUDNN_TESTS_SUPPORT_CERTIFICATES_H_

// A cluster's certificates, in a folder of their own, made by
// deploy/certificates.sh.

#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/service/credentials.h"
#include "coordinator/security/guard.h"
#include "coordinator/security/principal.h"
#include "coordinator/security/tokens.h"
#include "proto/job_key.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn::test {

class Certificates {
 public:
  explicit Certificates(const std::string& cluster = "test") {
    Script({"init", "--cluster", cluster});
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
    const std::string base = folder_ / fmt::format("{}-{}", Name(role), name);
    Script({"issue", std::string(Name(role)), name, "--renew", "--until",
            After(lifetime)});
    return {.ca = folder_ / "ca.crt",
            .cert = base + ".crt",
            .key = base + ".key",
            .token = {}};
  }
  // Returns the token.
  std::string AddToken(Role role, const std::string& name) {
    return AddTokens(role, {name}).front();
  }
  std::vector<std::string> AddTokens(Role role,
                                     const std::vector<std::string>& names) {
    std::vector<std::string> added;
    for (const std::string& name : names) {
      added.push_back(NewJobKey());
      tokens_ +=
          fmt::format("{} {} {}\n", Name(role), name, HashOf(added.back()));
    }
    WriteTokens();
    return added;
  }
  void RevokeTokens() {
    tokens_.clear();
    WriteTokens();
  }
  void Revoke(const CredentialFiles& files) const {
    Script({"revoke", files.cert});
  }
  // A new certificate for the coordinator, in place of the old one.
  void RenewCoordinator(
      const std::vector<std::string>& hosts = {"127.0.0.1"},
      std::chrono::seconds lifetime = std::chrono::hours(1)) const {
    Script({"issue", "coordinator", "c", "--renew", "--host",
            fmt::format("{}", fmt::join(hosts, ",")), "--until",
            After(lifetime)});
  }

 private:
  static std::string After(std::chrono::seconds lifetime) {
    const auto end = std::chrono::ceil<std::chrono::seconds>(
        std::chrono::system_clock::now() + lifetime);
    return fmt::format("@{}", end.time_since_epoch().count());
  }
  void Script(std::vector<std::string> words) const {
    const std::lock_guard lock(mutex_);  // openssl's register has one writer
    words.insert(words.begin(), ScriptPath("certificates.sh"));
    words.insert(words.end(), {"--dir", folder_.path()});
    const Finished done = Run(words);
    if (done.status != 0) std::fprintf(stderr, "%s", done.err.c_str());
    UCUDNN_CHECK(done.status == 0);
  }
  void WriteTokens() const {
    UCUDNN_CHECK(ReplaceFile(folder_ / "tokens", tokens_, 0600).has_value());
  }

  TemporaryFolder folder_;
  mutable std::mutex mutex_;
  std::string tokens_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_CERTIFICATES_H_
