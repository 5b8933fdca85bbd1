// The agent's link against a real gRPC server.

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "agent/link.h"
#include "proto/status.h"
#include "ucudnn/v1/agent.grpc.pb.h"

namespace ucudnn {
namespace {

class AgentServer final : public v1::AgentService::Service {
 public:
  AgentServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    UCUDNN_CHECK(server_ != nullptr);
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

  grpc::Status LeaseTasks(grpc::ServerContext*, const v1::LeaseTasksRequest*,
                          v1::LeaseTasksResponse* response) override {
    return lease(response);
  }

  std::function<grpc::Status(v1::LeaseTasksResponse*)> lease;

 private:
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

class NextCoordinatorTest : public ::testing::TestWithParam<grpc::Status> {};

TEST_P(NextCoordinatorTest, AnswersWhenOneCannot) {
  AgentServer leaving;
  leaving.lease = [](v1::LeaseTasksResponse*) { return GetParam(); };
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
