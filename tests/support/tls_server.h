#ifndef UCUDNN_TESTS_SUPPORT_TLS_SERVER_H_
#define UCUDNN_TESTS_SUPPORT_TLS_SERVER_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "base/files/file.h"
#include "base/units.h"
#include "tests/support/certificates.h"

namespace ucudnn::test {

// For a gRPC server that shows the coordinator's certificate and takes every
// client.
inline std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(
    const Certificates& certificates) {
  const GuardFiles files = certificates.guard();
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back(
      {.private_key = ReadFile(files.key, 1_MiB).value(),
       .cert_chain = ReadFile(files.cert, 1_MiB).value()});
  return grpc::SslServerCredentials(options);
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_TLS_SERVER_H_
