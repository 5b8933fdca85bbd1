#include "client/dropin/ask/curl.h"

#include <dlfcn.h>

#include <algorithm>

#include "base/service/shared_library.h"

namespace ucudnn {
namespace {

// The file that defines an address.
std::string FileOf(const void* address) {
  Dl_info info = {};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr
             ? info.dli_fname
             : "the program";
}

// The calls of a library that is loaded go to the program's definition, if it
// has one: that of an OpenSSL that was linked into it, perhaps another version.
Status CheckOwnFunctions(const SharedLibrary& curl) {
  for (const char* function : {"curl_easy_init", "SSL_new", "BIO_new",
                               "EVP_MD_CTX_new", "gnutls_init"}) {
    const void* const found = curl.Find(function);
    const void* const global = dlsym(RTLD_DEFAULT, function);
    if (found == nullptr || global == nullptr || found == global) continue;
    return Fail(Code::kFailedPrecondition,
                "{} cannot be used, because {} has a function {} of its own",
                curl.path(), FileOf(global), function);
  }
  return {};
}

bool IsLoaded(const std::string& name) {
  return dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) != nullptr;
}

}  // namespace

Result<Curl> LoadCurl(const std::vector<std::string>& names) {
  const bool shared = std::ranges::any_of(names, IsLoaded);
  const auto library = SharedLibrary::Open(names, {});
  if (!library) {
    return Fail(Code::kFailedPrecondition,
                "{}; libcurl (Debian's package libcurl4) is needed to ask",
                library.error().message);
  }
  UCUDNN_RETURN_IF_ERROR(CheckOwnFunctions(*library));
  Curl curl;
#define UCUDNN_BIND(function)                                               \
  curl.function =                                                           \
      reinterpret_cast<decltype(&::function)>(library->Find(#function));    \
  if (curl.function == nullptr) {                                           \
    return Fail(Code::kFailedPrecondition, "{} has no function {}",         \
                library->path(), #function);                                \
  }
  UCUDNN_CURL_FUNCTIONS(UCUDNN_BIND)
#undef UCUDNN_BIND
  const auto* const version = curl.curl_version_info(CURLVERSION_NOW);
  if (shared && (version->features & CURL_VERSION_THREADSAFE) == 0) {
    return Fail(Code::kFailedPrecondition,
                "{} is version {}, which the program may be initializing; "
                "7.84 or later is accepted in a program that has loaded it",
                library->path(), version->version);
  }
  if (const CURLcode done = curl.curl_global_init(CURL_GLOBAL_DEFAULT);
      done != CURLE_OK) {
    return Fail(Code::kFailedPrecondition, "{} cannot be initialized: {}",
                library->path(), curl.curl_easy_strerror(done));
  }
  return curl;
}

Result<const Curl*> LoadedCurl() {
  static const Result<Curl> curl =
      LoadCurl({"libcurl.so.4", "libcurl-gnutls.so.4"});
  if (!curl) return tl::unexpected<Error>(curl.error());
  return &*curl;
}

}  // namespace ucudnn
