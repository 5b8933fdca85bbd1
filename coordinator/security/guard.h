#ifndef UCUDNN_COORDINATOR_SECURITY_GUARD_H_
#define UCUDNN_COORDINATOR_SECURITY_GUARD_H_

// Finds out who calls, by certificate or token.
//
//   UCUDNN_ASSIGN_OR_RETURN(const auto guard, Guard::Open(files));
//   UCUDNN_ASSIGN_OR_RETURN(const auto who, guard->Identify(peer));

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "coordinator/security/principal.h"

using SSL_CTX = struct ssl_ctx_st;

namespace ucudnn {

// PEM files, except for the tokens (tokens.h).
struct GuardFiles {
  std::string ca;    // the authorities that signed the cluster's certificates
  std::string cert;  // the coordinator's own, with those between it and `ca`
  std::string key;
  std::string revoked;  // a revocation list; empty: none
  std::string tokens;   // empty: none

  friend bool operator==(const GuardFiles&, const GuardFiles&) = default;
};

// What a caller shows.
struct Peer {
  std::string host;
  std::string certificate = {};    // PEM; TLS has verified it; empty: none
  std::string authorization = {};  // the header's value
  std::string job_key = {};
};

// Thread-safe. Reads files that changed again, at most a second later; if a new
// one is wrong, it logs that and goes on with the old ones.
class Guard {
 public:
  // For plaintext, where callers are unknown.
  static const Guard& None();
  // kInvalidArgument, naming the file, if one cannot be used or others than its
  // owner and group may read the key or the tokens.
  static Result<std::unique_ptr<Guard>> Open(const GuardFiles& files);

  virtual ~Guard() = default;

  // Nothing without TLS. Otherwise who calls; kUnauthenticated if the caller
  // shows nothing that is valid now. A token counts instead of a certificate.
  virtual Result<std::optional<Principal>> Identify(const Peer& peer) const = 0;
  // When this coordinator's certificate expires, and the first of those that
  // callers showed, by role: Unix time in seconds. Empty without TLS.
  virtual std::map<std::string, std::int64_t> Expiries() const { return {}; }
  // Null without TLS.
  virtual const GuardFiles* files() const = 0;
  // For a server that asks clients for certificates but takes those without.
  // Null without TLS.
  virtual std::shared_ptr<SSL_CTX> tls() const = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_SECURITY_GUARD_H_
