#ifndef UCUDNN_COORDINATOR_SECURITY_TOKENS_H_
#define UCUDNN_COORDINATOR_SECURITY_TOKENS_H_

// Bearer tokens of people and programs without certificates. The coordinator's
// file has a line for each, with the token's hash, not the token
// (deploy/certificates.sh):
//
//   # role name sha256
//   viewer alice
//   2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
//
// Tokens are 32 random bytes, so a fast hash is enough.

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "coordinator/security/principal.h"

namespace ucudnn {

// By hash. The principals belong to no cluster yet.
using Tokens = std::map<std::string, Principal, std::less<>>;

std::string HashOf(std::string_view token);
// kInvalidArgument, naming the line.
Result<Tokens> ParseTokens(std::string_view text);

// The token in "Bearer TOKEN", or in "Basic BASE64(ANYTHING:TOKEN)", which
// browsers send when asked; empty if there is none.
std::string TokenIn(std::string_view authorization);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_SECURITY_TOKENS_H_
