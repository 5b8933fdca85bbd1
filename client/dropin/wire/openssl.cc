#include "client/dropin/wire/openssl.h"

#include <dlfcn.h>

#include <array>

#include "base/service/shared_library.h"

namespace ucudnn {
namespace {

constexpr char kLibrary[] = "libssl.so.3";

// The file that defines an address.
std::string FileOf(const void* address) {
  Dl_info info = {};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr
             ? info.dli_fname
             : "the program";
}

Result<void*> FindIn(const SharedLibrary& library, const char* function) {
  void* const found = library.Find(function);
  if (found == nullptr) {
    return Fail(Code::kFailedPrecondition,
                "{} has no function {}; OpenSSL 3 is needed to ask over TLS",
                library.path(), function);
  }
  // The library's own calls may go to the program's definition, if it has one:
  // that of an OpenSSL that was linked into it, perhaps of another version.
  void* const global = dlsym(RTLD_DEFAULT, function);
  if (global != nullptr && global != found) {
    return Fail(Code::kFailedPrecondition,
                "{} cannot be used to ask over TLS, because {} has a function "
                "{} of its own",
                FileOf(found), FileOf(global), function);
  }
  return found;
}

}  // namespace

std::string OpenSsl::Reason() const {
  std::array<char, 256> text{};
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "OpenSSL gives no reason";
  if (const char* reason = ERR_reason_error_string(code)) return reason;
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

Result<OpenSsl> LoadOpenSsl(const std::string& library) {
  const auto loaded = SharedLibrary::Open({library}, {});
  if (!loaded) {
    return Fail(Code::kFailedPrecondition,
                "OpenSSL 3 is needed to ask over TLS: {}",
                loaded.error().message);
  }
  OpenSsl openssl;
#define UCUDNN_BIND(function)                                               \
  {                                                                         \
    UCUDNN_ASSIGN_OR_RETURN(void* const found, FindIn(*loaded, #function)); \
    openssl.function = reinterpret_cast<decltype(&::function)>(found);      \
  }
  UCUDNN_OPENSSL_FUNCTIONS(UCUDNN_BIND)
#undef UCUDNN_BIND
  return openssl;
}

Result<const OpenSsl*> LoadedOpenSsl() {
  static const Result<OpenSsl> openssl = LoadOpenSsl(kLibrary);
  if (!openssl) return tl::unexpected<Error>(openssl.error());
  return &*openssl;
}

}  // namespace ucudnn
