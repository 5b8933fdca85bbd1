#include "device/cudnn/operators/api.h"

#include "device/cudnn/driver/libraries.h"

namespace ucudnn::cudnn {
namespace {

Result<SharedLibrary> OpenCudnn() {
  return SharedLibrary::Open({fmt::format("libcudnn.so.{}", CUDNN_MAJOR)},
                             SearchDirectories());
}

#define UCUDNN_BIND(member, function)                                          \
  api.member =                                                                 \
      reinterpret_cast<decltype(api.member)>(library.Find(#function));         \
  if (api.member == nullptr) {                                                 \
    return Fail(Code::kUnimplemented, "{} has no function {}", library.path(), \
                #function);                                                    \
  }

Result<OperatorApi> LoadOperators() {
  UCUDNN_ASSIGN_OR_RETURN(const auto library, OpenCudnn());
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
