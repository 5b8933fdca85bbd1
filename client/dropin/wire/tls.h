#ifndef UCUDNN_CLIENT_DROPIN_WIRE_TLS_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_TLS_H_

// HTTP/2 connections over TLS to coordinators, which prove who they are by
// certificates of an authority and their host names, as to all clients
// (proto/channel.h). OpenSSL only transforms bytes: sockets, deadlines and
// signals stay here.
//
// OpenSSL keeps errors per thread, and reading files can take any time: use
// all of this on a thread of ours (on_thread.h).

#include <memory>
#include <string>

#include "base/result.h"
#include "base/service/credentials.h"
#include "client/dropin/wire/byte_stream.h"
#include "client/dropin/wire/tcp.h"

struct ssl_ctx_st;

namespace ucudnn {

struct OpenSsl;

class TlsClient {
 public:
  // With `files.ca`, and the certificate if there is one; files that
  // CheckCredentials accepts. Errors of LoadedOpenSsl (openssl.h);
  // kInvalidArgument, naming the file, if OpenSSL cannot read one or the key
  // needs a passphrase.
  static Result<TlsClient> Open(const CredentialFiles& files);

  // Makes the handshake with the coordinator at `host`. kFailedPrecondition if
  // its certificate is not accepted or it speaks no HTTP/2 over TLS;
  // kUnauthenticated if it does not accept ours; kUnavailable;
  // kDeadlineExceeded.
  Result<std::unique_ptr<ByteStream>> Connect(TcpConnection connection,
                                              const std::string& host,
                                              Deadline deadline) const;

 private:
  TlsClient() = default;

  const OpenSsl* openssl_ = nullptr;
  std::shared_ptr<ssl_ctx_st> context_;
  std::string ca_;
  std::string own_;  // our certificate, and whether it is valid now, for errors
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_TLS_H_
