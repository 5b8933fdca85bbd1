#include "proto/channel.h"

#include <grpc/support/log.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <cstdlib>
#include <mutex>

#include "proto/job_key.h"

namespace ucudnn {
namespace {

constexpr unsigned kLookForNewFilesSeconds = 1;

std::shared_ptr<grpc::ChannelCredentials> TlsOf(const CredentialFiles& files) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.cert, files.ca, kLookForNewFilesSeconds));
  options.watch_root_certs();
  if (!files.cert.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

// WhyUnreachable tells why a handshake failed; gRPC would write it to stderr,
// too, once for each try. A server of this process may log it all the same.
void QuietGrpc() {
  static std::once_flag once;
  if (std::getenv("GRPC_VERBOSITY") != nullptr) return;
  std::call_once(once,
                 [] { gpr_set_log_function([](gpr_log_func_args*) {}); });
}

}  // namespace

Result<Access> Access::Open(const CredentialFiles& files,
                            const std::vector<std::string>& coordinators,
                            const std::string& job_key) {
  UCUDNN_RETURN_IF_ERROR(CheckCredentials(files));
  UCUDNN_ASSIGN_OR_RETURN(const std::string token, ReadToken(files));
  UCUDNN_RETURN_IF_ERROR(CheckTokenStaysSecret(files, coordinators));
  Access access;
  access.files_ = files;
  if (!files.ca.empty()) {
    QuietGrpc();
    access.credentials_ = TlsOf(files);
  }
  if (!token.empty()) access.authorization_ = "Bearer " + token;
  // A coordinator without TLS asks for no key.
  if (!files.ca.empty()) access.job_key_ = job_key;
  return access;
}

std::shared_ptr<grpc::ChannelCredentials> Access::credentials() const {
  return credentials_ == nullptr ? grpc::InsecureChannelCredentials()
                                 : credentials_;
}

void Access::AddTo(grpc::ClientContext* context) const {
  if (!authorization_.empty()) {
    context->AddMetadata("authorization", authorization_);
  }
  if (!job_key_.empty()) context->AddMetadata(kJobKeyHeader, job_key_);
}

std::string Access::How() const {
  return files_.ca.empty() ? "" : " over TLS (authority " + files_.ca + ")";
}

}  // namespace ucudnn
