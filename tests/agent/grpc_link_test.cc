// The agent's link against a real gRPC server.

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "agent/link.h"
#include "proto/status.h"
#include "tests/support/tls_server.h"
#include "ucudnn/v1/agent.grpc.pb.h"

namespace ucudnn {
namespace {

class AgentServer final : public v1::AgentService::Service {
 public:
  explicit AgentServer(std::shared_ptr<grpc::ServerCredentials> credentials =
                           grpc::InsecureServerCredentials())
      : credentials_(std::move(credentials)) {
    Start();
  }
  void Stop() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  // Again after Stop, on the same port.
  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), credentials_, &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    UCUDNN_CHECK(server_ != nullptr && port_ != 0);
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

  grpc::Status LeaseTasks(grpc::ServerContext* context,
                          const v1::LeaseTasksRequest*,
                          v1::LeaseTasksResponse* response) override {
    if (busy) context->AddTrailingMetadata(kPushbackHeader, "1000");
    return lease(response);
  }

  std::function<grpc::Status(v1::LeaseTasksResponse*)> lease;
  bool busy = false;  // asks for another try later

 private:
  const std::shared_ptr<grpc::ServerCredentials> credentials_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(GrpcLinkTest, AcceptsTasksWithManyKnownPoints) {
  AgentServer server;
  const std::string large(std::size_t{8} << 20, 'x');
  server.lease = [&](v1::LeaseTasksResponse* response) {
    response->add_tasks()->set_problem(large);
    return grpc::Status::OK;
  };
  const auto link = MakeGrpcLink({server.address()}).value();
  const auto leased = link->LeaseTasks({});
  ASSERT_TRUE(leased) << leased.error().message;
  EXPECT_EQ(leased->tasks(0).problem().size(), large.size());
}

TEST(GrpcLinkTest, ReturnsOverTlsToACoordinatorThatWasAway) {
  const test::Certificates certificates;
  AgentServer server(test::TlsServerCredentials(certificates));
  server.lease = [](v1::LeaseTasksResponse*) { return grpc::Status::OK; };
  const auto link =
      MakeGrpcLink({server.address()}, certificates.Issue(Role::kAgent, "a"),
                   std::chrono::milliseconds(0))
          .value();
  ASSERT_TRUE(link->LeaseTasks({}));
  server.Stop();
  EXPECT_FALSE(link->LeaseTasks({}));
  EXPECT_FALSE(link->LeaseTasks({}));
  server.Start();
  EXPECT_TRUE(test::WaitUntil([&] { return link->LeaseTasks({}).has_value(); },
                              std::chrono::seconds(10)));
}

TEST(GrpcLinkTest, AsksNobodyElseOnceAQuotaIsUsedUp) {
  AgentServer server;
  server.lease = [](v1::LeaseTasksResponse*) {
    return ToGrpc(Fail(Code::kResourceExhausted, "up to 3"));
  };
  AgentServer other;
  other.lease = [](v1::LeaseTasksResponse*) { return grpc::Status::OK; };
  const auto link = MakeGrpcLink({server.address(), other.address()}).value();
  const auto refused = link->LeaseTasks({});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(refused.error().message, "up to 3");
}

class NextCoordinatorTest : public ::testing::TestWithParam<grpc::Status> {};

TEST_P(NextCoordinatorTest, AnswersWhenOneCannot) {
  AgentServer leaving;
  leaving.lease = [](v1::LeaseTasksResponse*) { return GetParam(); };
  leaving.busy = GetParam().error_message() == "busy";
  AgentServer other;
  other.lease = [&](v1::LeaseTasksResponse* response) {
    response->add_tasks()->set_id(7);
    return grpc::Status::OK;
  };
  const auto link = MakeGrpcLink({leaving.address(), other.address()}).value();
  const auto leased = link->LeaseTasks({});
  ASSERT_TRUE(leased) << leased.error().message;
  EXPECT_EQ(leased->tasks(0).id(), 7);
}

INSTANTIATE_TEST_SUITE_P(
    WhenItStopsOrIsBusy, NextCoordinatorTest,
    ::testing::Values(
        // gRPC's answer for a handler that a shutdown interrupts.
        grpc::Status::CANCELLED, Stopping(),
        ToGrpc(Fail(Code::kResourceExhausted, "busy")),
        grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                     "Server Threadpool Exhausted")));

}  // namespace
}  // namespace ucudnn
