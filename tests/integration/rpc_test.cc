// What tools expect of any gRPC service, with a real coordinator.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "proto/channel.h"
#include "tests/integration/cluster.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn::test {
namespace {

using ::testing::HasSubstr;

class RpcTest : public ::testing::Test {
 protected:
  RpcTest() {
    cluster_.StartCoordinators();
    channel_ = grpc::CreateChannel(
        cluster_.addresses().front(),
        Access::Open(Cluster::Credentials(), {})->credentials());
  }

  // Sends one message to a method and returns the first answer, as bytes.
  std::string Exchange(const std::string& method, const std::string& message) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
    grpc::CompletionQueue queue;
    const auto await = [&] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(&context, method, &queue);
    call->StartCall(nullptr);
    if (!await()) return "no call";
    const grpc::Slice slice(message);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    if (!await()) return "no write";
    grpc::ByteBuffer response;
    call->Read(&response, nullptr);
    if (!await()) return "no answer";
    context.TryCancel();
    grpc::Slice bytes;
    if (!response.DumpToSingleSlice(&bytes).ok()) return "no bytes";
    return std::string(bytes.begin(), bytes.end());
  }

  Cluster cluster_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(RpcTest, AnswersHealthChecks) {
  // grpc.health.v1.HealthCheckResponse{status: SERVING}
  EXPECT_EQ(Exchange("/grpc.health.v1.Health/Check", ""),
            std::string("\x08\x01"));
}

TEST_F(RpcTest, ListsItsServices) {
  // ServerReflectionRequest{list_services: ""}
  const std::string services =
      Exchange("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
               std::string("\x3a\x00", 2));
  EXPECT_THAT(services, HasSubstr("ucudnn.v1.AgentService"));
  EXPECT_THAT(services, HasSubstr("ucudnn.v1.CoordinatorService"));
}

TEST_F(RpcTest, ReturnsTheSameErrorsAsRest) {
  const auto stub = v1::CoordinatorService::NewStub(channel_);
  grpc::ClientContext context;
  v1::GetRequest request;
  request.set_id("none");
  v1::Network network;
  const grpc::Status status = stub->GetNetwork(&context, request, &network);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("none"));
}

}  // namespace
}  // namespace ucudnn::test
