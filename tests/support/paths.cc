#include "tests/support/paths.h"

#include <cstdlib>

namespace ucudnn::test {
namespace {

// What the variable says, on machines that have no build tree.
std::string Folder(const char* variable, const char* built) {
  const char* set = std::getenv(variable);
  return std::string(set == nullptr ? built : set) + "/";
}

}  // namespace

std::string DataPath(const std::string& name) {
  return Folder("UCUDNN_TEST_DATA", UCUDNN_TESTS_DATA) + name;
}

std::optional<std::string> PublicDataPath(const std::string& name) {
  const char* folder = std::getenv("UCUDNN_PUBLIC_DATA");
  if (folder == nullptr) return std::nullopt;
  return std::string(folder) + "/" + name;
}

std::string ScriptPath(const std::string& name) {
  return DataPath("../../deploy/") + name;
}

std::string ProgramPath(const std::string& name) {
  return Folder("UCUDNN_BIN_DIR", UCUDNN_TESTS_BUILD "/bin") + name;
}

std::string LibraryPath(const std::string& name) {
  return UCUDNN_TESTS_BUILD "/lib/" + name;
}

}  // namespace ucudnn::test
