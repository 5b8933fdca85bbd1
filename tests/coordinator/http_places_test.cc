#include "coordinator/rest/http_places.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "coordinator/limits.h"

namespace ucudnn {
namespace {

using Waits = HttpPlaces::Waits;
using std::chrono::seconds;

// A client's connection to a server of four.
class Connection {
 public:
  Connection(HttpPlaces& places, const std::string& source) : places_(places) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()), 0);
    accepted_ = places_.Take(ends_[0], source);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (accepted_) places_.Leave(ends_[0]);
    for (const int end : ends_) close(end);
  }

  bool accepted() const { return accepted_; }
  void Wait(Waits waits, seconds ago) {
    places_.Set(ends_[0], waits, std::chrono::steady_clock::now() - ago);
  }
  void Send() { EXPECT_EQ(send(ends_[1], "GET ", 4, 0), 4); }
  bool Ended() const {
    char byte = 0;
    return recv(ends_[1], &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  HttpPlaces& places_;
  std::array<int, 2> ends_{};
  bool accepted_ = false;
};

class HttpPlacesTest : public ::testing::Test {
 protected:
  HttpPlaces places_{4};
};

TEST_F(HttpPlacesTest, GivesThePlaceOfTheLongestWithoutARequest) {
  Connection first(places_, "a");
  Connection second(places_, "b");
  Connection third(places_, "b");
  EXPECT_TRUE(places_.crowded());
  Connection fourth(places_, "c");
  first.Wait(Waits::kForClient, seconds(50));
  second.Wait(Waits::kForHead, seconds(1));
  third.Wait(Waits::kForHead, seconds(2));
  const Connection fifth(places_, "d");
  EXPECT_TRUE(fifth.accepted());
  EXPECT_TRUE(third.Ended());
  EXPECT_FALSE(first.Ended() || second.Ended() || fourth.Ended());
}

TEST_F(HttpPlacesTest, GivesASourceHalfOfThePlaces) {
  Connection other(places_, "b");
  other.Wait(Waits::kForHead, seconds(50));
  Connection first(places_, "a");
  Connection second(places_, "a");
  second.Wait(Waits::kForHead, seconds(1));
  first.Wait(Waits::kNot, seconds(0));
  Connection third(places_, "a");
  EXPECT_TRUE(third.accepted());
  EXPECT_TRUE(second.Ended());
  third.Wait(Waits::kNot, seconds(0));
  EXPECT_FALSE(Connection(places_, "a").accepted());
  EXPECT_TRUE(Connection(places_, "b").accepted());
  EXPECT_FALSE(other.Ended());
}

TEST_F(HttpPlacesTest, LeavesThoseWhoseRequestIsYetToBeRead) {
  Connection asking(places_, "a");
  Connection idle(places_, "a");
  asking.Wait(Waits::kForHead, seconds(2));
  asking.Send();
  EXPECT_TRUE(Connection(places_, "a").accepted());
  EXPECT_TRUE(idle.Ended());
  EXPECT_FALSE(asking.Ended());
}

TEST_F(HttpPlacesTest, LetsClientsSendAndReadForAWhile) {
  Connection sending(places_, "a");
  Connection working(places_, "a");
  working.Wait(Waits::kNot, seconds(50));
  sending.Wait(Waits::kForClient, seconds(0));
  EXPECT_FALSE(Connection(places_, "a").accepted());
  sending.Wait(Waits::kForClient, seconds(3));
  ASSERT_GT(seconds(3), kHttpCrowded);
  EXPECT_TRUE(Connection(places_, "a").accepted());
  EXPECT_TRUE(sending.Ended());
  EXPECT_FALSE(working.Ended());
}

TEST_F(HttpPlacesTest, ForgetsThoseThatLeave) {
  {
    const Connection one(places_, "a");
    const Connection two(places_, "b");
    const Connection three(places_, "c");
    EXPECT_TRUE(places_.crowded());
  }
  EXPECT_FALSE(places_.crowded());
}

}  // namespace
}  // namespace ucudnn
