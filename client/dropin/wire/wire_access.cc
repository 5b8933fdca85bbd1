#include "client/dropin/wire/wire_access.h"

#include <utility>

namespace ucudnn {

Result<WireAccess> WireAccess::Open(
    const CredentialFiles& files,
    const std::vector<std::string>& coordinators) {
  UCUDNN_RETURN_IF_ERROR(CheckCredentials(files));
  UCUDNN_RETURN_IF_ERROR(CheckTokenStaysSecret(files, coordinators));
  WireAccess access;
  UCUDNN_ASSIGN_OR_RETURN(access.token, ReadToken(files));
  if (files.ca.empty()) return access;
  UCUDNN_ASSIGN_OR_RETURN(TlsClient client, TlsClient::Open(files));
  access.tls = std::make_shared<const TlsClient>(std::move(client));
  return access;
}

}  // namespace ucudnn
