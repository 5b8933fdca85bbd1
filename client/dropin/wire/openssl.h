#ifndef UCUDNN_CLIENT_DROPIN_WIRE_OPENSSL_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_OPENSSL_H_

// OpenSSL 3, loaded when it is first needed and not linked: a program may bring
// its own, and two in one process crash it (docs/adr/0046).

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace ucudnn {

// Functions, not macros of the headers, which would have to be linked.
#define UCUDNN_OPENSSL_FUNCTIONS(X)     \
  X(TLS_client_method)                  \
  X(SSL_CTX_new)                        \
  X(SSL_CTX_free)                       \
  X(SSL_CTX_ctrl)                       \
  X(SSL_CTX_set_options)                \
  X(SSL_CTX_set_verify)                 \
  X(SSL_CTX_set_default_passwd_cb)      \
  X(SSL_CTX_load_verify_file)           \
  X(SSL_CTX_use_certificate_chain_file) \
  X(SSL_CTX_use_PrivateKey_file)        \
  X(SSL_CTX_get0_certificate)           \
  X(SSL_new)                            \
  X(SSL_free)                           \
  X(SSL_ctrl)                           \
  X(SSL_set_bio)                        \
  X(SSL_set_connect_state)              \
  X(SSL_set1_host)                      \
  X(SSL_set_hostflags)                  \
  X(SSL_set_alpn_protos)                \
  X(SSL_get0_alpn_selected)             \
  X(SSL_do_handshake)                   \
  X(SSL_read)                           \
  X(SSL_write)                          \
  X(SSL_get_error)                      \
  X(SSL_get_verify_result)              \
  X(BIO_new)                            \
  X(BIO_s_mem)                          \
  X(BIO_read)                           \
  X(BIO_write)                          \
  X(BIO_ctrl_pending)                   \
  X(ERR_clear_error)                    \
  X(ERR_get_error)                      \
  X(ERR_error_string_n)                 \
  X(ERR_reason_error_string)            \
  X(X509_verify_cert_error_string)      \
  X(X509_get0_notBefore)                \
  X(X509_get0_notAfter)                 \
  X(X509_cmp_current_time)              \
  X(ASN1_TIME_to_tm)

// One pointer for each function, of the type that the header declares.
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name is declared
#define UCUDNN_MEMBER(function) decltype(&::function) function = nullptr;
struct OpenSsl {
  UCUDNN_OPENSSL_FUNCTIONS(UCUDNN_MEMBER)

  // The reason of this thread's oldest failure; forgets all of them.
  std::string Reason() const;
};
#undef UCUDNN_MEMBER

// kFailedPrecondition if `library` is missing, lacks a function, or would call
// those of another OpenSSL that the program has under the same names.
Result<OpenSsl> LoadOpenSsl(const std::string& library);

// The same for libssl.so.3, which the process may already have, once in a
// process.
Result<const OpenSsl*> LoadedOpenSsl();

// What frees an object of OpenSSL.
template <class T>
struct OpenSslFree {
  void (*free)(T*) = nullptr;
  void operator()(T* object) const { free(object); }
};
using SslSession = std::unique_ptr<SSL, OpenSslFree<SSL>>;

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_OPENSSL_H_
