#include "device/cudnn/operators/api.h"

#include "device/cudnn/driver/libraries.h"

namespace ucudnn::cudnn {
namespace {

#define UCUDNN_BIND(member, function)                          \
  api.member = reinterpret_cast<decltype(&::function)>(        \
      libraries->cudnn_library->Find(#function));              \
  if (api.member == nullptr) {                                 \
    return Fail(Code::kUnimplemented, "{} has no function {}", \
                libraries->cudnn_library->path(), #function);  \
  }

Result<OperatorApi> LoadOperators() {
  UCUDNN_ASSIGN_OR_RETURN(const Libraries* libraries, LoadedLibraries());
  OperatorApi api;
  UCUDNN_OPERATOR_FUNCTIONS(UCUDNN_BIND)
  return api;
}

#undef UCUDNN_BIND

}  // namespace

Result<const OperatorApi*> LoadedOperators() {
  static const Result<OperatorApi> api = LoadOperators();
  if (!api) return tl::unexpected<Error>(api.error());
  return &*api;
}

}  // namespace ucudnn::cudnn
