#include "tests/support/paths.h"

#include <cstdlib>

namespace ucudnn::test {

std::string DataPath(const std::string& name) {
  return UCUDNN_TESTS_DATA "/" + name;
}

std::optional<std::string> PublicDataPath(const std::string& name) {
  const char* folder = std::getenv("UCUDNN_PUBLIC_DATA");
  if (folder == nullptr) return std::nullopt;
  return std::string(folder) + "/" + name;
}

std::string ScriptPath(const std::string& name) {
  return UCUDNN_TESTS_DATA "/../../deploy/" + name;
}

std::string ProgramPath(const std::string& name) {
  return UCUDNN_TESTS_BUILD "/bin/" + name;
}

std::string LibraryPath(const std::string& name) {
  return UCUDNN_TESTS_BUILD "/lib/" + name;
}

}  // namespace ucudnn::test
