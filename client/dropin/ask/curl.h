#ifndef UCUDNN_CLIENT_DROPIN_ASK_CURL_H_
#define UCUDNN_CLIENT_DROPIN_ASK_CURL_H_

// libcurl, loaded when it is first needed and not linked: a program may bring
// its own, or none (docs/adr/0013).

#include <curl/curl.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace ucudnn {

#define UCUDNN_CURL_FUNCTIONS(X) \
  X(curl_global_init)            \
  X(curl_version_info)           \
  X(curl_easy_init)              \
  X(curl_easy_setopt)            \
  X(curl_easy_perform)           \
  X(curl_easy_getinfo)           \
  X(curl_easy_strerror)          \
  X(curl_easy_cleanup)

// One pointer for each function, of the type that the header declares.
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name is declared
#define UCUDNN_MEMBER(function) decltype(&::function) function = nullptr;
struct Curl {
  UCUDNN_CURL_FUNCTIONS(UCUDNN_MEMBER)
};
#undef UCUDNN_MEMBER

// The first of `names` that is found, initialized. kFailedPrecondition if there
// is none, if it lacks a function, if it would call functions of the program
// that have the same names as those of its TLS library, or if it is older than
// 7.84 and the program has it too: both might initialize it at once.
Result<Curl> LoadCurl(const std::vector<std::string>& names);

// The same for the system's, once in a process.
Result<const Curl*> LoadedCurl();

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_ASK_CURL_H_
