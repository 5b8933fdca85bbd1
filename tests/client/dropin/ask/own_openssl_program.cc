// A program with an OpenSSL linked into it, of which it exports a function:
// prints why it cannot ask coordinators.

#include <cstdio>
#include <cstdlib>

#include "client/dropin/ask/curl.h"

extern "C" void* BIO_new(const void* /*type*/) { std::abort(); }

int main() {
  const auto curl = ucudnn::LoadedCurl();
  if (curl) return 1;
  std::puts(curl.error().message.c_str());
  return 0;
}
