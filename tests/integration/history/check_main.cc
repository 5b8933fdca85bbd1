// Judges the history of a service under faults (check.h):
//
//   history_check FILE
//
// Prints what it found. Exit status: 0 if nothing is wrong with the history, 1
// if something is, 2 if it cannot be read or says nothing.

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/history/check.h"

namespace ucudnn::test {
namespace {

int Main(const std::string& path) {
  std::ifstream file(path);
  std::vector<Event> history;
  for (std::string line; std::getline(file, line);) {
    auto event = FromLine(line);
    if (!event) {
      fmt::print(stderr, "{}: {}\n", path, event.error().message);
      return 2;
    }
    history.push_back(*std::move(event));
  }
  const Verdict verdict = Check(history);
  fmt::print("{} calls; {} facts acknowledged, {} read; keys:", history.size(),
             verdict.acknowledged, verdict.read);
  for (const auto& [name, keys] : verdict.keys) {
    fmt::print(" {} {}", keys, name);
  }
  fmt::print("; {} violations\n", verdict.violated);
  for (const std::string& violation : verdict.violations) {
    fmt::print("{}\n", violation);
  }
  if (verdict.acknowledged == 0 || verdict.read == 0) return 2;
  return verdict.violated == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: history_check FILE\n");
    return 2;
  }
  return ucudnn::test::Main(argv[1]);
}
