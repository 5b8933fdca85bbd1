#include "client/config/coordinators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ParseCoordinatorsTest, ReadsLists) {
  EXPECT_THAT(ParseCoordinators("a:1", "x").value(), ElementsAre("a:1"));
  EXPECT_THAT(
      ParseCoordinators("a.b-c:7460, [::1]:65535 ,10.0.0.1:9", "x").value(),
      ElementsAre("a.b-c:7460", "[::1]:65535", "10.0.0.1:9"));
}

TEST(ParseCoordinatorsTest, RefusesWhatIsNotHostAndPort) {
  for (const char* bad : {"", ",", "a:1,", "a", "a:", ":7460", "a:0", "a:65536",
                          "a:x", "::1:7460", "[]:1", "http://a:1", "a b:1"}) {
    const auto list = ParseCoordinators(bad, "UCUDNN_COORDINATOR");
    ASSERT_FALSE(list) << bad;
    EXPECT_EQ(list.error().code, Code::kInvalidArgument);
    EXPECT_THAT(list.error().message, StartsWith("UCUDNN_COORDINATOR: '"));
    EXPECT_THAT(list.error().message, HasSubstr("host:port"));
  }
}

TEST(RestCoordinatorsTest, AreUrlsOrBesideGrpcsDefaultPort) {
  const auto list =
      ParseRestCoordinators("a:7460, http://b:1,https://[::1]:2,c:9000");
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_THAT(*list, ElementsAre("a:7460", "http://b:1", "https://[::1]:2",
                                 "c:9000"));
  EXPECT_EQ(RestAddress((*list)[0]).value(), "a:7461");
  EXPECT_EQ(RestAddress((*list)[1]).value(), "b:1");
  EXPECT_EQ(RestAddress((*list)[2]).value(), "[::1]:2");
  const auto other = RestAddress((*list)[3]);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("http://host:port"));
  for (const char* bad : {"", "http://", "http://a", "ftp://a:1", "a:1/b"}) {
    EXPECT_FALSE(ParseRestCoordinators(bad)) << bad;
  }
}

}  // namespace
}  // namespace ucudnn
