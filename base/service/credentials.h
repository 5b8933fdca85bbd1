#ifndef UCUDNN_BASE_SERVICE_CREDENTIALS_H_
#define UCUDNN_BASE_SERVICE_CREDENTIALS_H_

// The files with which a client or an agent reaches coordinators over TLS and
// shows who it is. Programs take them from options, else from the environment:
//
//   UCUDNN_CA          certificates of the authorities that sign coordinators'
//   UCUDNN_CERT        the program's own certificate
//   UCUDNN_KEY         its private key; mode 0600
//   UCUDNN_TOKEN_FILE  instead of a certificate: a token; mode 0600

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/service/environment.h"

namespace ucudnn {

inline constexpr char kCaVariable[] = "UCUDNN_CA";
inline constexpr char kCertVariable[] = "UCUDNN_CERT";
inline constexpr char kKeyVariable[] = "UCUDNN_KEY";
inline constexpr char kTokenFileVariable[] = "UCUDNN_TOKEN_FILE";

// Paths; empty: none. Without `ca`, connections are plaintext.
struct CredentialFiles {
  std::string ca;
  std::string cert;
  std::string key;
  std::string token;

  friend bool operator==(const CredentialFiles&,
                         const CredentialFiles&) = default;
};

CredentialFiles CredentialsFrom(const Environment& environment);

// kInvalidArgument, naming what is missing, if the files do not go together or
// one cannot be read; see ReadSecret (base/files/file.h) for the key and the
// token.
Status CheckCredentials(const CredentialFiles& files);
// kInvalidArgument if the token would leave the host in plaintext, to one of
// `coordinators`.
Status CheckTokenStaysSecret(const CredentialFiles& files,
                             const std::vector<std::string>& coordinators);
// The token; empty if there is none. Errors of ReadSecret; kInvalidArgument
// unless it is one line of printable characters.
Result<std::string> ReadToken(const CredentialFiles& files);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_CREDENTIALS_H_
