#include "coordinator/rest/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::Pair;

std::optional<std::vector<std::string>> Match(std::string_view pattern,
                                              std::string_view path) {
  std::vector<std::string> parts;
  if (!MatchPath(pattern, path, &parts)) return std::nullopt;
  return parts;
}

TEST(MatchPathTest, FindsWhatTheBracesStandFor) {
  EXPECT_THAT(Match("/v1/jobs", "/v1/jobs"), Optional(ElementsAre()));
  EXPECT_THAT(Match("/v1/jobs/{id}", "/v1/jobs/a/b"),
              Optional(ElementsAre("a/b")));
  EXPECT_THAT(Match("/v1/jobs/{id}/ranks/{rank}", "/v1/jobs/a/ranks/b/ranks/3"),
              Optional(ElementsAre("a/ranks/b", "3")));
  for (const char* path : {"/v1/job", "/v1/jobs", "/v1/jobs/", "/v1/jobsx/a"}) {
    EXPECT_EQ(Match("/v1/jobs/{id}", path), std::nullopt) << path;
  }
  EXPECT_EQ(Match("/v1/jobs/{id}/replan", "/v1/jobs/replan"), std::nullopt);
  EXPECT_EQ(Match("/v1/jobs", "/v1/jobs/a"), std::nullopt);
}

TEST(DecodePercentTest, LeavesWhatIsNoEscape) {
  EXPECT_EQ(DecodePercent("a%2Fb%20c+d", false), "a/b c+d");
  EXPECT_EQ(DecodePercent("a+b%2", true), "a b%2");
  EXPECT_EQ(DecodePercent("%zz%-1%", false), "%zz%-1%");
}

TEST(ParseQueryTest, KeepsTheOrderOfParameters) {
  EXPECT_THAT(
      ParseQuery("shape=x%3D1&&shape=y&empty"),
      ElementsAre(Pair("shape", "x=1"), Pair("shape", "y"), Pair("empty", "")));
  EXPECT_THAT(ParseQuery(""), ElementsAre());
}

}  // namespace
}  // namespace ucudnn
