#ifndef UCUDNN_TESTS_SUPPORT_TLS_SERVER_H_
#define UCUDNN_TESTS_SUPPORT_TLS_SERVER_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <memory>
#include <vector>

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

// The same, but as a coordinator: a client's certificate is checked.
inline std::shared_ptr<grpc::ServerCredentials> MutualTlsServerCredentials(
    const Certificates& certificates) {
  const GuardFiles files = certificates.guard();
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
          ReadFile(files.ca, 1_MiB).value(),
          std::vector<grpc::experimental::IdentityKeyCertPair>{
              {.private_key = ReadFile(files.key, 1_MiB).value(),
               .certificate_chain = ReadFile(files.cert, 1_MiB).value()}}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_TLS_SERVER_H_
