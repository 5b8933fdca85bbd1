#include "coordinator/rest/host_check.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(HostCheckTest, KnowsNamesThatNoStrangerCanOwn) {
  for (const char* host :
       {"127.0.0.1", "10.0.0.5:7461", "[::1]:7461", "localhost:7461", "coord-1",
        "coord-1.:7461", "ucudnn-coord.ml.svc:7461", "coord.site.example.org",
        "Coord.Site.Example.org:7461", "a.svc.cluster.local"}) {
    EXPECT_TRUE(IsHostOfOurs(host, "coord.site.example.org")) << host;
  }
  for (const char* host : {"attacker.example.com", "attacker.example.com:7461",
                           "127.0.0.1.nip.io:7461", "localhost.evil.org",
                           "coord.site.example.org.evil.org"}) {
    EXPECT_FALSE(IsHostOfOurs(host, "coord.site.example.org")) << host;
  }
}

TEST(HostCheckTest, ComparesOrigins) {
  EXPECT_TRUE(IsOriginOf("https://Coord-1:7461", "coord-1:7461"));
  for (const char* origin :
       {"null", "http://coord-1", "http://coord-1:80", "http://evil.org",
        "http://coord-1:7461.evil.org", "coord-1:7461", ""}) {
    EXPECT_FALSE(IsOriginOf(origin, "coord-1:7461")) << origin;
  }
}

}  // namespace
}  // namespace ucudnn
