#include "coordinator/rpc/unread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class UnreadTest : public ::testing::Test {
 protected:
  Unread::Place Add(const std::string& name, const std::string& connection,
                    std::size_t bytes) {
    return unread_.Add(connection, bytes,
                       [this, name] { ended_.push_back(name); });
  }

  Unread unread_{100};
  std::vector<std::string> ended_;
};

TEST_F(UnreadTest, EndsTheOldestCallOfTheConnectionThatLeavesMost) {
  Add("modest", "a", 30);
  Add("first", "b", 20);
  Add("second", "b", 20);
  const auto read = Add("read", "b", 30);
  EXPECT_THAT(ended_, IsEmpty());
  unread_.Remove(read);
  Add("third", "b", 20);
  EXPECT_THAT(ended_, IsEmpty());
  Add("fourth", "b", 20);
  EXPECT_THAT(ended_, ElementsAre("first"));
  Add("fifth", "a", 50);
  EXPECT_THAT(ended_, ElementsAre("first", "modest", "second"));
}

TEST_F(UnreadTest, EndsCallsThatAreNotReadInTime) {
  const auto place = Add("late", "a", 1);
  EXPECT_EQ(unread_.EndOverdue(milliseconds(1'000'000), milliseconds(0)).unread,
            1U);
  EXPECT_THAT(ended_, IsEmpty());
  const Unread::Count count =
      unread_.EndOverdue(milliseconds(0), milliseconds(0));
  EXPECT_EQ(count.unread, 0U);
  EXPECT_EQ(count.ended, 1U);
  EXPECT_THAT(ended_, ElementsAre("late"));
  EXPECT_EQ(unread_.EndOverdue(milliseconds(0), milliseconds(0)).ended, 0U);
  unread_.Remove(place);
}

}  // namespace
}  // namespace ucudnn
