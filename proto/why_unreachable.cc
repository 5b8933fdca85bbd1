// Access::WhyUnreachable: connects once more with OpenSSL, since gRPC's own
// errors do not tell a certificate that is not accepted from a port that speaks
// no TLS.

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "base/service/address.h"
#include "base/service/name_server.h"
#include "proto/channel.h"

namespace ucudnn {
namespace {

constexpr unsigned kNapMs = 20;
constexpr char kTimeout[] = "transfer timeout";  // BIO_wait's
constexpr char kSilent[] = "it does not answer in time";
constexpr char kNoGrpc[] =
    "what listens there does not speak gRPC (port 7460 by default; 7461 is "
    "REST)";

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Stream = std::unique_ptr<BIO, decltype(&BIO_free_all)>;

// Connects, or shakes hands, by the deadline.
bool Connect(BIO* bio, std::time_t deadline) {
  ERR_clear_error();
  while (BIO_do_connect(bio) != 1) {
    if (!BIO_should_retry(bio) || BIO_wait(bio, deadline, kNapMs) != 1) {
      return false;
    }
  }
  return true;
}

// Of this thread's oldest failure, which is the cause of the others.
std::string Reason() {
  const char* data = "";
  int flags = 0;
  const unsigned long code =
      ERR_get_error_all(nullptr, nullptr, nullptr, &data, &flags);
  if (code == 0) return "no answer";
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  // getaddrinfo's
  if (ERR_GET_LIB(code) == ERR_LIB_BIO && *data != '\0') return data;
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "no answer" : reason;
}

// "DNS:coord-1, IP Address:10.0.0.5"
std::string NamesIn(const X509* certificate) {
  const Stream text(BIO_new(BIO_s_mem()), BIO_free_all);
  const int at = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
  X509_EXTENSION* names = X509_get_ext(certificate, at);
  if (names == nullptr || X509V3_EXT_print(text.get(), names, 0, 0) != 1) {
    return "no host";
  }
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

// Blocks SIGPIPE in this thread for as long as it lives. OpenSSL writes to
// sockets without MSG_NOSIGNAL, so without it a peer that closes the connection
// would end the program.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

std::string WhyNotAccepted(const SSL* tls, const std::string& host,
                           const std::string& ca) {
  const long verified = SSL_get_verify_result(tls);
  const X509* shown = SSL_get0_peer_certificate(tls);
  switch (verified) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format("its certificate is for {}; not for {}",
                         NamesIn(shown), host);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return fmt::format("no authority in {} has signed its certificate", ca);
    default:
      return fmt::format("its certificate is not accepted: {}",
                         X509_verify_cert_error_string(verified));
  }
}

}  // namespace

std::string Access::WhyUnreachable(const std::string& endpoint) const {
  constexpr std::chrono::seconds kPatience{2};
  const std::string host = SplitEndpoint(endpoint).host;
  if (IsHostName(host)) {
    if (Status asked = AwaitNameServer({host}, kPatience); !asked) {
      return std::move(asked).error().message;
    }
  }
  const std::time_t deadline = std::time(nullptr) + kPatience.count();
  const bool trusted = !files_.ca.empty();
  const WithoutSigpipe without_sigpipe;
  const Context context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  Stream tcp(BIO_new_connect(endpoint.c_str()), BIO_free_all);
  if (context == nullptr || tcp == nullptr) return Reason();
  BIO_set_nbio(tcp.get(), 1);
  if (!Connect(tcp.get(), deadline)) return Reason();
  // Shakes hands with everybody: the result of the check tells the rest.
  if (trusted) SSL_CTX_load_verify_file(context.get(), files_.ca.c_str());
  if (!files_.cert.empty()) {
    SSL_CTX_use_certificate_chain_file(context.get(), files_.cert.c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), files_.key.c_str(),
                                SSL_FILETYPE_PEM);
  }
  const Stream stream(
      BIO_push(BIO_new_ssl(context.get(), /*client=*/1), tcp.release()),
      BIO_free_all);
  SSL* tls = nullptr;
  BIO_get_ssl(stream.get(), &tls);
  constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
  SSL_set_alpn_protos(tls, kHttp2.data(), kHttp2.size());
  SSL_set_tlsext_host_name(tls, host.c_str());
  if (trusted &&
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host.c_str()) != 1) {
    SSL_set1_host(tls, host.c_str());
  }
  if (!Connect(stream.get(), deadline)) {
    const std::string why = Reason();
    if (why == kTimeout) return kSilent;
    return trusted ? "no TLS is spoken there: " + why : kNoGrpc;
  }
  if (!trusted) {
    return "it speaks TLS; name the authority that signed its certificate "
           "(--ca, UCUDNN_CA)";
  }
  if (SSL_get_verify_result(tls) != X509_V_OK) {
    return WhyNotAccepted(tls, host, files_.ca);
  }
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(tls, &protocol, &size);
  if (size == 0) return kNoGrpc;
  // With TLS 1.3 our certificate is refused after the handshake.
  std::array<char, 64> settings{};
  int got = 0;
  while ((got = BIO_read(stream.get(), settings.data(), settings.size())) <=
             0 &&
         BIO_should_retry(stream.get())) {
    if (BIO_wait(stream.get(), deadline, kNapMs) != 1) break;
  }
  if (got > 0 || files_.cert.empty()) return kSilent;
  return fmt::format("it does not accept {}: {}", files_.cert, Reason());
}

}  // namespace ucudnn
