#include "tests/support/paths.h"

namespace ucudnn::test {

std::string DataPath(const std::string& name) {
  return UCUDNN_TESTS_DATA "/" + name;
}

std::string SharedDataPath(const std::string& name) {
  return UCUDNN_TESTS_SHARED_DATA "/" + name;
}

std::string ProgramPath(const std::string& name) {
  return UCUDNN_TESTS_BUILD "/bin/" + name;
}

std::string LibraryPath(const std::string& name) {
  return UCUDNN_TESTS_BUILD "/lib/" + name;
}

}  // namespace ucudnn::test
