#include "agent/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

// Of this process alone, so that several runs of the test do not meet.
std::string Unique(const std::string& id) {
  return id + "-" + std::to_string(getpid());
}

TEST(IdentityTest, NumbersAgentsOfOneHostThatHaveNoNameOfTheirOwn) {
  const std::string host = Unique("host");
  std::optional<Identity> first =
      Identity::Take(host, /*suggestion=*/true, "c:1").value();
  const Identity second =
      Identity::Take(host, /*suggestion=*/true, "c:1").value();
  EXPECT_EQ(first->id(), host);
  EXPECT_EQ(second.id(), host + "-2");
  // What has ended lets go of its name.
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
  // Another coordinator's agents are no concern of this one's.
  EXPECT_TRUE(Identity::Take(id, /*suggestion=*/false, "c:2"));
}

}  // namespace
}  // namespace ucudnn
