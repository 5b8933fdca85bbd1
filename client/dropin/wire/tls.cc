#include "client/dropin/wire/tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <ctime>
#include <string_view>
#include <utility>

#include "client/dropin/wire/openssl.h"

namespace ucudnn {
namespace {

constexpr std::string_view kHttp2 = "h2";

int NoPassphrase(char*, int, int, void*) { return -1; }

tl::unexpected<Error> Bad(const OpenSsl& openssl, const std::string& path,
                          std::string_view what) {
  return Fail(Code::kInvalidArgument, "{} {}: {}", path, what,
              openssl.Reason());
}

std::string Date(const OpenSsl& openssl, const ASN1_TIME* time) {
  std::tm utc = {};
  std::array<char, 64> text{};
  if (openssl.ASN1_TIME_to_tm(time, &utc) != 1) return "an unknown date";
  (void)std::strftime(text.data(), text.size(), "%F %T UTC", &utc);
  return text.data();
}

// "the certificate in PATH", with what keeps it from being valid now.
std::string Describe(const OpenSsl& openssl, const std::string& path,
                     const X509* certificate) {
  std::string text = "the certificate in " + path;
  if (certificate == nullptr) return text;
  const ASN1_TIME* const from = openssl.X509_get0_notBefore(certificate);
  const ASN1_TIME* const to = openssl.X509_get0_notAfter(certificate);
  if (openssl.X509_cmp_current_time(to) < 0) {
    text += ", which expired on " + Date(openssl, to);
  } else if (openssl.X509_cmp_current_time(from) > 0) {
    text += ", which is valid from " + Date(openssl, from);
  }
  return text;
}

Status LoadFiles(const OpenSsl& openssl, const CredentialFiles& files,
                 SSL_CTX* context) {
  if (openssl.SSL_CTX_load_verify_file(context, files.ca.c_str()) != 1) {
    return Bad(openssl, files.ca, "holds no authority's certificate (PEM)");
  }
  if (files.cert.empty()) return {};
  if (openssl.SSL_CTX_use_certificate_chain_file(context, files.cert.c_str()) !=
      1) {
    return Bad(openssl, files.cert, "is no certificate (PEM)");
  }
  // Otherwise OpenSSL would ask the terminal.
  openssl.SSL_CTX_set_default_passwd_cb(context, NoPassphrase);
  if (openssl.SSL_CTX_use_PrivateKey_file(context, files.key.c_str(),
                                          SSL_FILETYPE_PEM) != 1) {
    return Bad(
        openssl, files.key,
        "is not the private key (PEM, without a passphrase) of " + files.cert);
  }
  return {};
}

bool IsAddress(const std::string& host) {
  in6_addr address = {};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// Whom to reach, and to speak HTTP/2.
Status SetPeer(const OpenSsl& openssl, const std::string& host, SSL* session) {
  // As with gRPC, only the certificate's alternative names count.
  openssl.SSL_set_hostflags(session, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                                         X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  constexpr std::array<unsigned char, 3> kProtocols = {2, 'h', '2'};
  const bool set = openssl.SSL_set1_host(session, host.c_str()) == 1 &&
                   openssl.SSL_set_alpn_protos(session, kProtocols.data(),
                                               kProtocols.size()) == 0;
  const auto tell_name = [&] {
    return openssl.SSL_ctrl(session, SSL_CTRL_SET_TLSEXT_HOSTNAME,
                            TLSEXT_NAMETYPE_host_name,
                            const_cast<char*>(host.c_str())) == 1;
  };
  if (set && (IsAddress(host) || tell_name())) return {};
  return Fail(Code::kInvalidArgument, "TLS to '{}': {}", host,
              openssl.Reason());
}

// What the messages of a connection name.
struct Names {
  std::string host;
  std::string ca;
  std::string own;  // empty: we show no certificate
};

class TlsConnection final : public ByteStream {
 public:
  // `session` has been set up for `names.host`; it reads from `received` and
  // writes to `to_send`, which it owns.
  TlsConnection(const OpenSsl& openssl, SslSession session, BIO* received,
                BIO* to_send, TcpConnection connection, Names names)
      : openssl_(openssl),
        connection_(std::move(connection)),
        names_(std::move(names)),
        session_(std::move(session)),
        received_(received),
        to_send_(to_send) {}

  Status Handshake(Deadline deadline) {
    while (true) {
      openssl_.ERR_clear_error();
      const int done = openssl_.SSL_do_handshake(session_.get());
      const Status sent = Flush(deadline);
      if (done == 1) {
        UCUDNN_RETURN_IF_ERROR(sent);
        return CheckProtocol();
      }
      // An alert that says why has been sent if it could be.
      if (!WantsMore(done)) return HandshakeFailed();
      UCUDNN_RETURN_IF_ERROR(sent);
      UCUDNN_RETURN_IF_ERROR(Receive(deadline));
    }
  }

  Status Write(std::string_view text, Deadline deadline) override {
    if (text.empty()) return {};
    openssl_.ERR_clear_error();
    const int written = openssl_.SSL_write(session_.get(), text.data(),
                                           static_cast<int>(text.size()));
    if (written != static_cast<int>(text.size())) {
      return Fail(Code::kUnavailable, "TLS: {}", openssl_.Reason());
    }
    return Flush(deadline);
  }

  Status Read(std::string* into, Deadline deadline) override {
    std::array<char, 16384> bytes;
    while (true) {
      openssl_.ERR_clear_error();
      const int got = openssl_.SSL_read(session_.get(), bytes.data(),
                                        static_cast<int>(bytes.size()));
      if (got > 0) {
        into->append(bytes.data(), static_cast<std::size_t>(got));
        answered_ = true;
        return {};
      }
      if (!WantsMore(got)) return Ended(openssl_.Reason());
      UCUDNN_RETURN_IF_ERROR(Flush(deadline));
      if (Status more = Receive(deadline); !more) {
        return more.error().code == Code::kUnavailable
                   ? Ended(more.error().message)
                   : more;
      }
    }
  }

 private:
  bool WantsMore(int result) const {
    return openssl_.SSL_get_error(session_.get(), result) ==
           SSL_ERROR_WANT_READ;
  }

  // Sends what OpenSSL has written.
  Status Flush(Deadline deadline) {
    std::string text(openssl_.BIO_ctrl_pending(to_send_), '\0');
    if (text.empty()) return {};
    const int size =
        openssl_.BIO_read(to_send_, text.data(), static_cast<int>(text.size()));
    if (size != static_cast<int>(text.size())) {
      return Fail(Code::kInternal, "TLS: {}", openssl_.Reason());
    }
    return connection_.Write(text, deadline);
  }

  // Gives OpenSSL more to read.
  Status Receive(Deadline deadline) {
    std::string text;
    UCUDNN_RETURN_IF_ERROR(connection_.Read(&text, deadline));
    const int size = openssl_.BIO_write(received_, text.data(),
                                        static_cast<int>(text.size()));
    if (size == static_cast<int>(text.size())) return {};
    return Fail(Code::kResourceExhausted, "TLS: {}", openssl_.Reason());
  }

  Status HandshakeFailed() const {
    const long verified = openssl_.SSL_get_verify_result(session_.get());
    if (verified != X509_V_OK) {
      return Fail(Code::kFailedPrecondition,
                  "the coordinator's certificate is not accepted: {}; one for "
                  "{} that an authority in {} signed is accepted",
                  openssl_.X509_verify_cert_error_string(verified), names_.host,
                  names_.ca);
    }
    return Fail(Code::kFailedPrecondition, "the TLS handshake fails: {}{}",
                openssl_.Reason(),
                names_.own.empty() ? "" : "; we show " + names_.own);
  }

  Status CheckProtocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    openssl_.SSL_get0_alpn_selected(session_.get(), &name, &size);
    if (std::string_view(reinterpret_cast<const char*>(name), size) == kHttp2) {
      return {};
    }
    return Fail(Code::kFailedPrecondition,
                "no HTTP/2 is spoken there over TLS; the port that a "
                "coordinator serves gRPC on is accepted");
  }

  // With TLS 1.3 a certificate is refused after the handshake, and gRPC's
  // servers say nothing then.
  Status Ended(const std::string& why) const {
    if (answered_ || names_.own.empty()) {
      return Fail(Code::kUnavailable, "{}", why);
    }
    return Fail(Code::kUnauthenticated,
                "{} after the handshake, as if {} were not accepted; a valid "
                "one that the coordinator's authority signed is",
                why, names_.own);
  }

  const OpenSsl& openssl_;
  TcpConnection connection_;
  const Names names_;
  SslSession session_;
  BIO* received_;
  BIO* to_send_;
  bool answered_ = false;
};

}  // namespace

Result<TlsClient> TlsClient::Open(const CredentialFiles& files) {
  TlsClient client;
  UCUDNN_ASSIGN_OR_RETURN(client.openssl_, LoadedOpenSsl());
  const OpenSsl& openssl = *client.openssl_;
  openssl.ERR_clear_error();
  client.context_ = {openssl.SSL_CTX_new(openssl.TLS_client_method()),
                     openssl.SSL_CTX_free};
  SSL_CTX* const context = client.context_.get();
  if (context == nullptr) {
    return Fail(Code::kFailedPrecondition, "OpenSSL offers no TLS: {}",
                openssl.Reason());
  }
  (void)openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION,
                             TLS1_2_VERSION, nullptr);
  (void)openssl.SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  openssl.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  UCUDNN_RETURN_IF_ERROR(LoadFiles(openssl, files, context));
  client.ca_ = files.ca;
  if (!files.cert.empty()) {
    client.own_ = Describe(openssl, files.cert,
                           openssl.SSL_CTX_get0_certificate(context));
  }
  return client;
}

Result<std::unique_ptr<ByteStream>> TlsClient::Connect(
    TcpConnection connection, const std::string& host,
    Deadline deadline) const {
  const OpenSsl& openssl = *openssl_;
  SslSession session(openssl.SSL_new(context_.get()),
                     OpenSslFree<SSL>{openssl.SSL_free});
  BIO* const received = openssl.BIO_new(openssl.BIO_s_mem());
  BIO* const to_send = openssl.BIO_new(openssl.BIO_s_mem());
  if (session != nullptr) {
    openssl.SSL_set_bio(session.get(), received, to_send);
  }
  if (session == nullptr || received == nullptr || to_send == nullptr) {
    return Fail(Code::kResourceExhausted, "TLS: {}", openssl.Reason());
  }
  UCUDNN_RETURN_IF_ERROR(SetPeer(openssl, host, session.get()));
  openssl.SSL_set_connect_state(session.get());
  auto tls = std::make_unique<TlsConnection>(
      openssl, std::move(session), received, to_send, std::move(connection),
      Names{.host = host, .ca = ca_, .own = own_});
  UCUDNN_RETURN_IF_ERROR(tls->Handshake(deadline));
  return tls;
}

}  // namespace ucudnn
