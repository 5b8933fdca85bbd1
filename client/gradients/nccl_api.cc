#include "client/gradients/nccl_api.h"

#include <string_view>

#include "device/cudnn/driver/libraries.h"

namespace ucudnn {
namespace {

Result<NcclApi> LoadNccl() {
  UCUDNN_ASSIGN_OR_RETURN(
      const SharedLibrary library,
      SharedLibrary::Open({"libnccl.so.2"}, cudnn::SearchDirectories()));
  NcclApi api;
  std::string_view missing;
  const auto bind = [&](const char* symbol, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(
        library.Find(symbol));
    if (*function == nullptr) missing = symbol;
  };
  bind("ncclGetVersion", &api.GetVersion);
  bind("ncclGetUniqueId", &api.GetUniqueId);
  bind("ncclCommInitRankConfig", &api.CommInitRankConfig);
  bind("ncclCommGetAsyncError", &api.CommGetAsyncError);
  bind("ncclCommAbort", &api.CommAbort);
  bind("ncclRedOpCreatePreMulSum", &api.RedOpCreatePreMulSum);
  bind("ncclRedOpDestroy", &api.RedOpDestroy);
  bind("ncclAllReduce", &api.AllReduce);
  bind("ncclGroupStart", &api.GroupStart);
  bind("ncclGroupEnd", &api.GroupEnd);
  bind("ncclGetErrorString", &api.GetErrorString);
  if (missing.empty()) return api;
  return Fail(Code::kUnimplemented,
              "{} has no function {}; NCCL 2.14 or later is needed",
              library.path(), missing);
}

}  // namespace

Result<const NcclApi*> LoadedNccl() {
  static const Result<NcclApi> loaded = LoadNccl();
  if (!loaded) return tl::unexpected(loaded.error());
  return &*loaded;
}

std::string NcclVersion(const NcclApi& nccl) {
  int version = 0;
  if (nccl.GetVersion(&version) != NcclResult::kSuccess) return "unknown";
  return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100,
                     version % 100);
}

}  // namespace ucudnn
