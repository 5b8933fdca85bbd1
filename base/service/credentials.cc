#include "base/service/credentials.h"

#include <algorithm>
#include <utility>

#include "base/files/file.h"
#include "base/service/address.h"

namespace ucudnn {

CredentialFiles CredentialsFrom(const Environment& environment) {
  const auto get = [&](const char* name) {
    return environment(name).value_or("");
  };
  return {.ca = get(kCaVariable),
          .cert = get(kCertVariable),
          .key = get(kKeyVariable),
          .token = get(kTokenFileVariable)};
}

Status CheckCredentials(const CredentialFiles& files) {
  if (files.cert.empty() != files.key.empty()) {
    return Fail(Code::kInvalidArgument,
                "a certificate (UCUDNN_CERT, --cert) and its key (UCUDNN_KEY, "
                "--key) are accepted together; only the {} is given",
                files.key.empty() ? "certificate" : "key");
  }
  if (files.ca.empty() && !files.cert.empty()) {
    return Fail(Code::kInvalidArgument,
                "a certificate is given ({}), but no authority's to check the "
                "coordinator with (UCUDNN_CA, --ca)",
                files.cert);
  }
  for (const std::string& path : {files.ca, files.cert}) {
    if (path.empty()) continue;
    UCUDNN_RETURN_IF_ERROR(OfInput(ReadFile(path, 1_MiB)));
  }
  if (!files.key.empty()) {
    UCUDNN_RETURN_IF_ERROR(OfInput(ReadSecret(files.key)));
  }
  return {};
}

Status CheckTokenStaysSecret(const CredentialFiles& files,
                             const std::vector<std::string>& coordinators) {
  if (files.token.empty() || !files.ca.empty()) return {};
  const auto other = std::ranges::find_if_not(coordinators, IsLoopback);
  if (other == coordinators.end()) return {};
  return Fail(Code::kInvalidArgument,
              "the token in {} would be sent to {} in plaintext; name an "
              "authority's certificate (UCUDNN_CA, --ca) for TLS",
              files.token, *other);
}

Result<std::string> ReadToken(const CredentialFiles& files) {
  if (files.token.empty()) return std::string();
  UCUDNN_ASSIGN_OR_RETURN(std::string token, OfInput(ReadSecret(files.token)));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) {
    token.pop_back();
  }
  const bool plain = std::ranges::all_of(
      token, [](unsigned char c) { return c > ' ' && c < 0x7F; });
  if (token.empty() || !plain || token.size() > 1024) {
    return Fail(Code::kInvalidArgument,
                "{} does not hold a token; one line of up to 1024 printable "
                "characters is accepted",
                files.token);
  }
  return token;
}

}  // namespace ucudnn
