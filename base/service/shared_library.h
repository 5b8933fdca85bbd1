#ifndef UCUDNN_BASE_SERVICE_SHARED_LIBRARY_H_
#define UCUDNN_BASE_SERVICE_SHARED_LIBRARY_H_

// Libraries that are loaded at run time, because programs also start without
// them.

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ucudnn {

// A library that stays loaded.
class SharedLibrary {
 public:
  // The first of `names` that the process already has, else the first that is
  // found: each is tried by the loader's rules, then in `directories`.
  // kUnavailable gives the names and the loader's last error.
  static Result<SharedLibrary> Open(
      const std::vector<std::string>& names,
      const std::vector<std::string>& directories);

  // Null if the library does not have it.
  void* Find(const char* symbol) const;
  const std::string& path() const { return path_; }

 private:
  SharedLibrary(void* handle, std::string path)
      : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_SHARED_LIBRARY_H_
