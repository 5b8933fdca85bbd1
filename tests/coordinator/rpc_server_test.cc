#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/metrics.h"
#include "coordinator/rpc/server.h"
#include "tests/coordinator/break_listener.h"
#include "tests/support/process.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn {
namespace {

class RpcServerTest : public ::testing::Test {
 protected:
  // A call over a connection of its own.
  grpc::Status Call() const {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::CoordinatorService::NewStub(grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(server_->port()),
        grpc::InsecureChannelCredentials(), own));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(5));
    v1::StatusResponse response;
    return stub->GetStatus(&context, {}, &response);
  }

  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  SystemClock clock_;
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
  Metrics metrics_;
  Dispatcher dispatcher_{coordinator_, metrics_};
  std::unique_ptr<RpcServer> server_ =
      RpcServer::Start("127.0.0.1:0", dispatcher_).value();
};

TEST_F(RpcServerTest, ListensAgainAfterItsListenerBroke) {
  ASSERT_TRUE(Call().ok());
  const int port = server_->port();
  ASSERT_TRUE(test::BreakListener(port));
  EXPECT_TRUE(
      test::WaitUntil([this] { return !server_->Accepting().has_value(); }));
  EXPECT_TRUE(test::WaitUntil([this] { return Call().ok(); }));
  EXPECT_TRUE(
      test::WaitUntil([this] { return server_->Accepting().has_value(); }));
  EXPECT_EQ(server_->port(), port);
}

TEST_F(RpcServerTest, RefusesLaterCallsWhenItIsStopped) {
  server_->Stop();
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::UNAVAILABLE);
  server_->Stop();
}

}  // namespace
}  // namespace ucudnn
