// Runs fuzz targets over the files in folders, as tests, by any compiler:
//
//   replay_fuzz wr tests/fuzz/corpus/wr

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace ucudnn {
namespace {

using FuzzTarget = void (*)(std::string_view);

std::map<std::string, FuzzTarget>& FuzzTargets() {
  static std::map<std::string, FuzzTarget> targets;
  return targets;
}

// How many files there were.
int Replay(FuzzTarget target, const std::filesystem::path& folder) {
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
    target(contents);
    ++files;
  }
  return files;
}

int Main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "replay_fuzz TARGET FOLDER\n");
    return 2;
  }
  const auto target = FuzzTargets().find(argv[1]);
  if (target == FuzzTargets().end()) {
    std::fprintf(stderr, "%s: no such fuzz target\n", argv[1]);
    return 2;
  }
  if (Replay(target->second, argv[2]) == 0) {
    std::fprintf(stderr, "%s: nothing to run in it\n", argv[2]);
    return 1;
  }
  return 0;
}

}  // namespace

bool AddFuzzTarget(std::string_view name, void (*run)(std::string_view)) {
  return FuzzTargets().emplace(name, run).second;
}

}  // namespace ucudnn

int main(int argc, char** argv) {
  try {
    return ucudnn::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
