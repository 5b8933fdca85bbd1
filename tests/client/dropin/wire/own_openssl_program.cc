// A program with an OpenSSL linked into it, of which it exports a function:
// prints why it cannot ask over TLS.

#include <cstdio>
#include <cstdlib>

#include "client/dropin/wire/openssl.h"

extern "C" BIO* BIO_new(const BIO_METHOD* /*type*/) { std::abort(); }

int main() {
  const auto openssl = ucudnn::LoadedOpenSsl();
  if (openssl) return 1;
  std::puts(openssl.error().message.c_str());
  return 0;
}
