// Plans of fixed inputs are those in tests/data/plans/golden.txt, as long as
// the solver has the version named there. After a change that makes other plans
// raise kSolverVersion (solver/version.h), and update the file by
//
//   UCUDNN_UPDATE_GOLDEN=1 ctest --test-dir build/dev -R ^house/golden
//
// Its diff tells what changed.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/files/file.h"
#include "solver/version.h"
#include "tests/house/fixed_plans.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

constexpr std::string_view kHeader = "solver version ";
constexpr std::string_view kUpdate =
    "update tests/data/plans/golden.txt by running this test with "
    "UCUDNN_UPDATE_GOLDEN=1, and read its diff";

std::string Golden(int version, std::string_view plans) {
  return fmt::format("{}{}\n{}", kHeader, version, plans);
}

// Where two texts begin to differ: the line, and what each has there.
std::string FirstDifference(const std::string& golden,
                            const std::string& plans) {
  std::istringstream before(golden);
  std::istringstream after(plans);
  std::string paragraph;
  std::string was;
  std::string is;
  while (true) {
    const bool more_before = static_cast<bool>(std::getline(before, was));
    const bool more_after = static_cast<bool>(std::getline(after, is));
    if (!more_before) was = "(nothing)";
    if (!more_after) is = "(nothing)";
    if (was != is || !more_before || !more_after) break;
    if (!was.empty() && was.front() != ' ') paragraph = was;
  }
  return fmt::format("{}\n  was: {}\n  is:  {}", paragraph, was, is);
}

// What is wrong with the golden file, or with changing it; empty if nothing.
struct Verdict {
  std::string file;
  std::string update;
};

Verdict Judge(const std::string& golden, int version,
              const std::string& plans) {
  const std::size_t end = std::min(golden.find('\n'), golden.size());
  const bool same = golden.substr(std::min(end + 1, golden.size())) == plans;
  const bool same_version =
      golden.substr(0, end) == fmt::format("{}{}", kHeader, version);
  if (same && same_version) return {};
  const std::string where = FirstDifference(golden, Golden(version, plans));
  if (same_version) {
    const std::string raise =
        "plans changed, but not the solver's version: raise kSolverVersion in "
        "solver/version.h if they were meant to, then " +
        std::string(kUpdate) + "\n" + where;
    return {raise, raise};
  }
  return {fmt::format("kSolverVersion changed: {}\n{}", kUpdate, where), ""};
}

TEST(GoldenPlansTest, ChangeOnlyWithTheSolversVersion) {
  const std::string path = test::DataPath("plans/golden.txt");
  const std::string plans = test::FixedPlans();
  const std::string golden = ReadFile(path, 1_MiB).value_or("");
  const Verdict verdict = Judge(golden, kSolverVersion, plans);
  if (std::getenv("UCUDNN_UPDATE_GOLDEN") == nullptr) {
    EXPECT_TRUE(verdict.file.empty()) << verdict.file;
    return;
  }
  ASSERT_TRUE(verdict.update.empty()) << verdict.update;
  std::ofstream file(path);
  file << Golden(kSolverVersion, plans);
  file.close();
  ASSERT_TRUE(file) << path;
}

TEST(GoldenPlansTest, OtherPlansNeedAnotherVersion) {
  const Verdict verdict = Judge(Golden(3, "\na\n  1 ns\n"), 3, "\na\n  2 ns\n");
  EXPECT_TRUE(verdict.file.starts_with("plans changed, but not the solver's"));
  EXPECT_NE(verdict.file.find("UCUDNN_UPDATE_GOLDEN=1"), std::string::npos);
  EXPECT_TRUE(verdict.file.ends_with("\na\n  was:   1 ns\n  is:    2 ns"));
  EXPECT_EQ(verdict.update, verdict.file);
}

TEST(GoldenPlansTest, AnotherVersionNeedsAnUpdate) {
  for (const char* plans : {"\na\n  1 ns\n", "\na\n  2 ns\n"}) {
    const Verdict verdict = Judge(Golden(3, "\na\n  1 ns\n"), 4, plans);
    EXPECT_TRUE(verdict.file.starts_with("kSolverVersion changed: update"));
    EXPECT_EQ(verdict.update, "");
  }
  const Verdict same = Judge(Golden(4, "\na\n"), 4, "\na\n");
  EXPECT_EQ(same.file, "");
  EXPECT_EQ(same.update, "");
}

}  // namespace
}  // namespace ucudnn
