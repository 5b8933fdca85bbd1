#ifndef UCUDNN_CLIENT_DROPIN_WIRE_WIRE_ACCESS_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_WIRE_ACCESS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/service/credentials.h"
#include "client/dropin/wire/tls.h"

namespace ucudnn {

// How coordinators are reached, and what each call shows them: Access
// (proto/channel.h) without gRPC.
struct WireAccess {
  std::shared_ptr<const TlsClient> tls;  // null: plaintext
  std::string token;                     // empty: none

  // Reads the files. Errors of TlsClient::Open, CheckTokenStaysSecret and
  // ReadToken (base/service/credentials.h).
  static Result<WireAccess> Open(const CredentialFiles& files,
                                 const std::vector<std::string>& coordinators);
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_WIRE_ACCESS_H_
