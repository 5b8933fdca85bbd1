// main() of every test program. With --file=ROOM/NAME_test.cc it runs only the
// tests of that source in the folder tests/, so one program holds the tests of
// a room, and ctest runs each source in a separate process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

// Calls visit(name, source) for every test of the program.
template <class Visit>
void ForEachTest(const Visit& visit) {
  const auto& program = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const auto& suite = *program.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const auto& test = *suite.GetTestInfo(t);
      visit(std::string(suite.name()) + "." + test.name(),
            std::string_view(test.file()));
    }
  }
}

// The tests of `file` as a GoogleTest filter. Empty, with a message, if there
// are none, or if the program has tests that no such filter would ever run.
std::string FilterOf(const std::string& file) {
  std::string filter;
  bool complete = true;
  ForEachTest([&](const std::string& name, std::string_view source) {
    if (source.ends_with("/tests/" + file)) {
      filter += (filter.empty() ? "" : ":") + name;
    } else if (!source.ends_with("_test.cc")) {
      std::fprintf(stderr, "%s of %s: tests belong in *_test.cc\n",
                   name.c_str(), std::string(source).c_str());
      complete = false;
    }
  });
  if (filter.empty()) {
    std::fprintf(stderr, "--file=%s: this source has no tests\n", file.c_str());
  }
  return complete ? filter : "";
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  constexpr std::string_view kFile = "--file=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFile)) {
      std::fprintf(stderr, "unknown argument: %s\n", argv[i]);
      return 2;
    }
    const std::string filter =
        FilterOf(std::string(argument.substr(kFile.size())));
    if (filter.empty()) return 2;
    GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
