#include "base/service/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <string_view>

namespace ucudnn {
namespace {

// Where the loader found it.
std::string PathOf(void* handle, const std::string& name) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && *map->l_name != '\0'
             ? map->l_name
             : name;
}

}  // namespace

Result<SharedLibrary> SharedLibrary::Open(
    const std::vector<std::string>& names,
    const std::vector<std::string>& directories) {
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), kMode | RTLD_NOLOAD)) {
      return SharedLibrary(handle, PathOf(handle, name));
    }
  }
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
      if (void* handle = dlopen(path.c_str(), kMode)) {
        return SharedLibrary(handle, PathOf(handle, path));
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
