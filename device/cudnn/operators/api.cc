#include "device/cudnn/operators/api.h"

#include "device/cudnn/driver/libraries.h"

namespace ucudnn::cudnn {
namespace {

Result<OperatorApi> LoadOperators() {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto library,
      SharedLibrary::Open({fmt::format("libcudnn.so.{}", CUDNN_MAJOR)},
                          SearchDirectories()));
  OperatorApi api;
#define UCUDNN_BIND(member, function)                                          \
  api.member =                                                                 \
      reinterpret_cast<decltype(api.member)>(library.Find(#function));         \
  if (api.member == nullptr) {                                                 \
    return Fail(Code::kUnimplemented, "{} has no function {}", library.path(), \
                #function);                                                    \
  }
  UCUDNN_OPERATOR_FUNCTIONS(UCUDNN_BIND)
#undef UCUDNN_BIND
  return api;
}

}  // namespace

Result<const OperatorApi*> LoadedOperators() {
  static const Result<OperatorApi> api = LoadOperators();
  if (!api) return tl::unexpected<Error>(api.error());
  return &*api;
}

}  // namespace ucudnn::cudnn
