#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <memory>
#include <string>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/health.h"
#include "coordinator/metrics.h"
#include "coordinator/rest/page.h"
#include "coordinator/rest/server.h"
#include "tests/coordinator/break_listener.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

class RestServerTest : public ::testing::Test {
 protected:
  RestServerTest()
      : store_(OpenStore("sqlite://" + folder_.path() + "/c.db").value()),
        coordinator_(CoordinatorOptions(), *store_, clock_),
        server_(RestServer::Start("127.0.0.1:0", dispatcher_, health_, Page())
                    .value()) {}

  bool Answers() {
    httplib::Client http("127.0.0.1", server_->port());
    const auto answer = http.Get("/livez");
    return answer && answer->status == 200;
  }

  const test::TemporaryFolder folder_;
  const std::unique_ptr<Store> store_;
  const SystemClock clock_;
  Coordinator coordinator_;
  Metrics metrics_;
  Dispatcher dispatcher_{coordinator_, metrics_};
  const Health health_{[] { return Status(); }, [](const Status&) {}};
  std::unique_ptr<RestServer> server_;
};

TEST_F(RestServerTest, StopsBeforeAndAfterItsFirstAnswer) {
  server_->Stop();
  EXPECT_FALSE(Answers());
  server_->Stop();
  server_ =
      RestServer::Start("127.0.0.1:0", dispatcher_, health_, Page()).value();
  EXPECT_TRUE(test::WaitUntil([this] { return Answers(); }));
  server_->Stop();
  EXPECT_FALSE(Answers());
}

TEST_F(RestServerTest, ListensAgainAfterItsListenerBroke) {
  const int port = server_->port();
  ASSERT_TRUE(test::WaitUntil([this] { return Answers(); }));
  ASSERT_TRUE(test::BreakListener(port));
  EXPECT_TRUE(test::WaitUntil([this] { return Answers(); }));
  EXPECT_EQ(server_->port(), port);
}

TEST_F(RestServerTest, StopsAfterItsListenerBroke) {
  ASSERT_TRUE(test::WaitUntil([this] { return Answers(); }));
  ASSERT_TRUE(test::BreakListener(server_->port()));
  server_->Stop();  // within the test's time
  EXPECT_FALSE(Answers());
}

}  // namespace
}  // namespace ucudnn
