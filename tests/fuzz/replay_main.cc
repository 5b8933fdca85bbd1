// Runs a fuzz target over the files in the folders given: a corpus as a test,
// by any compiler.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace {

int Replay(const std::filesystem::path& folder) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    // Told beforehand, so that the last line names what crashed.
    std::printf("%s\n", entry.path().c_str());
    std::fflush(stdout);
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string contents(std::istreambuf_iterator<char>(file), {});
    if (!file) {
      std::fprintf(stderr, "%s: it cannot be read\n", entry.path().c_str());
      return 0;
    }
    LLVMFuzzerTestOneInput(
        reinterpret_cast<const std::uint8_t*>(contents.data()),
        contents.size());
    ++files;
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) {
      if (Replay(argv[i]) == 0) {
        std::fprintf(stderr, "%s: nothing to run in it\n", argv[i]);
        return 1;
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return argc > 1 ? 0 : 1;
}
