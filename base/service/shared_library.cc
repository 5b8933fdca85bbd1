#include "base/service/shared_library.h"

#include <dlfcn.h>

#include <string_view>

namespace ucudnn {

Result<SharedLibrary> SharedLibrary::Open(
    const std::vector<std::string>& names,
    const std::vector<std::string>& directories) {
  std::string wanted;
  std::string reason;  // the first one besides a missing file
  bool informative = false;
  for (const std::string& name : names) {
    if (!wanted.empty()) wanted += " or ";
    wanted += name;
    std::vector<std::string> paths = {name};
    for (const std::string& directory : directories) {
      paths.push_back(fmt::format("{}/{}", directory, name));
    }
    for (const std::string& path : paths) {
      // Never closed: CUDA's libraries do not survive being unloaded.
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        return SharedLibrary(handle, path);
      }
      const char* error = dlerror();
      if (error == nullptr || informative) continue;
      informative = !std::string_view(error).starts_with(
          path + ": cannot open shared object file: No such file");
      if (informative || reason.empty()) reason = error;
    }
  }
  return Fail(Code::kUnavailable, "{} was not found ({})", wanted, reason);
}

void* SharedLibrary::Find(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace ucudnn
