#ifndef UCUDNN_PROTO_CHANNEL_H_
#define UCUDNN_PROTO_CHANNEL_H_

// How a client or an agent reaches coordinators: over TLS, showing a
// certificate or a token, or in plaintext.
//
// Includes gRPC: include it in .cc files only.

#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/service/credentials.h"

namespace ucudnn {

class Access {
 public:
  // Plaintext, and nothing to show.
  Access() = default;
  // Certificates and keys that change later are taken over by new connections.
  // Errors of CheckCredentials and ReadToken (base/service/credentials.h);
  // kInvalidArgument if a token would leave the host in plaintext, to one of
  // `coordinators`. `job_key` as in proto/job_key.h.
  static Result<Access> Open(const CredentialFiles& files,
                             const std::vector<std::string>& coordinators,
                             const std::string& job_key = {});

  std::shared_ptr<grpc::ChannelCredentials> credentials() const;
  // Adds what each call shows.
  void AddTo(grpc::ClientContext* context) const;
  bool tls() const { return credentials_ != nullptr; }
  // "", or " over TLS (authority FILE)" for errors.
  std::string How() const;
  // Why gRPC does not connect to "host:port", such as an unknown host, TLS on
  // one side alone, or a certificate that the coordinator or we show. Takes at
  // most two seconds, and the time to resolve the host.
  std::string WhyUnreachable(const std::string& endpoint) const;

 private:
  CredentialFiles files_;
  std::string authorization_;
  std::string job_key_;
  std::shared_ptr<grpc::ChannelCredentials> credentials_;  // null: plaintext
};

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_CHANNEL_H_
