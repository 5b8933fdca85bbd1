#include "base/service/address.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(AddressTest, KnowsWhatOnlyThisHostReaches) {
  for (const char* local :
       {"localhost:1", "127.0.0.1:7460", "127.9.8.7:0", "[::1]:7460"}) {
    EXPECT_TRUE(IsLoopback(local)) << local;
  }
  for (const char* remote :
       {"0.0.0.0:7460", "[::]:7460", "10.0.0.1:1", "coord-1:7460",
        "127.example.org:1", "localhost.example.org:1", "12.7.0.1:1"}) {
    EXPECT_FALSE(IsLoopback(remote)) << remote;
  }
}

TEST(AddressTest, AllAddressesAreThoseOfIpv6AndIpv4) {
  const std::vector<std::string> both = {"[::]:7460", "0.0.0.0:7460"};
  EXPECT_EQ(ListenAddresses("0.0.0.0:7460"), both);
  EXPECT_EQ(ListenAddresses("[::]:7460"), both);
  for (const std::string one : {"127.0.0.1:0", "[::1]:7460", "coord-1:7460"}) {
    EXPECT_EQ(ListenAddresses(one), std::vector<std::string>{one});
  }
}

TEST(AddressTest, TakesHostAndPortApart) {
  EXPECT_EQ(SplitEndpoint("coord-1:7460").host, "coord-1");
  EXPECT_EQ(SplitEndpoint("coord-1:7460").port, "7460");
  EXPECT_EQ(SplitEndpoint("[::1]:0").host, "::1");
  EXPECT_EQ(SplitEndpoint("[::1]:0").port, "0");
}

}  // namespace
}  // namespace ucudnn
