#include "agent/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

// Unique to this process, so that parallel runs of the test do not collide.
std::string Unique(const std::string& id) {
  return id + "-" + std::to_string(getpid());
}

TEST(IdentityTest, NumbersUnnamedAgentsOfOneHost) {
  const std::string host = Unique("host");
  std::optional<Identity> first =
      Identity::Take(host, /*suggestion=*/true, "c:1").value();
  const Identity second =
      Identity::Take(host, /*suggestion=*/true, "c:1").value();
  EXPECT_EQ(first->id(), host);
  EXPECT_EQ(second.id(), host + "-2");
  // An agent that ends releases its name.
  first.reset();
  EXPECT_EQ(Identity::Take(host, /*suggestion=*/true, "c:1")->id(), host);
}

TEST(IdentityTest, RefusesANameThatAnotherAgentHas) {
  const std::string id = Unique("mine");
  const Identity first =
      Identity::Take(id, /*suggestion=*/false, "c:1").value();
  const auto second = Identity::Take(id, /*suggestion=*/false, "c:1");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(second.error().message, HasSubstr(id));
  EXPECT_THAT(second.error().message, HasSubstr("--id"));
  // Agents of another coordinator may have the same name.
  EXPECT_TRUE(Identity::Take(id, /*suggestion=*/false, "c:2"));
}

}  // namespace
}  // namespace ucudnn
