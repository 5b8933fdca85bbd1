#ifndef UCUDNN_COORDINATOR_SECURITY_OPENSSL_H_
#define UCUDNN_COORDINATOR_SECURITY_OPENSSL_H_

// OpenSSL's objects as C++ owns them.

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace ucudnn {

template <auto kFree>
struct OpensslFree {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
template <class T, auto kFree>
using OpensslPtr = std::unique_ptr<T, OpensslFree<kFree>>;

using BioPtr = OpensslPtr<BIO, BIO_free_all>;
using BignumPtr = OpensslPtr<BIGNUM, BN_free>;
using CrlPtr = OpensslPtr<X509_CRL, X509_CRL_free>;
using SslContextPtr = OpensslPtr<SSL_CTX, SSL_CTX_free>;
using SslPtr = OpensslPtr<SSL, SSL_free>;
using X509Ptr = OpensslPtr<X509, X509_free>;

// The reason of this thread's oldest failure, and forgets all of them.
inline std::string OpensslReason() {
  std::array<char, 256> text{};
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "OpenSSL gives no reason";
  if (const char* reason = ERR_reason_error_string(code)) return reason;
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

// Reads `text` like a file. The text outlives the object.
inline BioPtr BioOf(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// What was written to a memory BIO.
inline std::string TextOf(const BioPtr& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : "";
}

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_SECURITY_OPENSSL_H_
