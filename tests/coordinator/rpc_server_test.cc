#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/metrics.h"
#include "coordinator/rpc/server.h"
#include "coordinator/security/guard.h"
#include "tests/coordinator/break_listener.h"
#include "tests/support/certificates.h"
#include "tests/support/process.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

// What the log says of handshakes while this exists.
class HandshakeLog {
 public:
  HandshakeLog() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", lines_));
  }
  ~HandshakeLog() { spdlog::set_default_logger(before_); }
  HandshakeLog(const HandshakeLog&) = delete;
  HandshakeLog& operator=(const HandshakeLog&) = delete;

  std::vector<std::string> Text() const { return lines_->Text(); }

 private:
  class Lines final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::vector<std::string> Text() {
      const std::lock_guard lock(mutex_);
      return lines_;
    }

   private:
    void sink_it_(const spdlog::details::log_msg& line) override {
      std::string text(line.payload.data(), line.payload.size());
      if (text.find("andshake") != std::string::npos) {
        lines_.push_back(std::move(text));
      }
    }
    void flush_() override {}

    std::vector<std::string> lines_;
  };

  const std::shared_ptr<spdlog::logger> before_;
  const std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};

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

  // How a method answers an empty request.
  grpc::StatusCode CodeOf(const std::string& method) const {
    grpc::GenericStub stub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                            grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
    grpc::CompletionQueue queue;
    const grpc::Slice nothing;
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(
        &context, method, grpc::ByteBuffer(&nothing, 1), &queue);
    call->StartCall();
    call->Finish(&response, &status, &status);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status.error_code();
  }

  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  SystemClock clock_;
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
  Metrics metrics_;
  Dispatcher dispatcher_{coordinator_, metrics_};
  std::unique_ptr<RpcServer> server_ =
      RpcServer::Start("127.0.0.1:0", dispatcher_).value();
};

TEST_F(RpcServerTest, ServesEachMethodOfTheServices) {
  for (const auto* service :
       {v1::StatusRequest::descriptor()->file()->FindServiceByName(
            "CoordinatorService"),
        v1::RegisterRequest::descriptor()->file()->FindServiceByName(
            "AgentService")}) {
    ASSERT_NE(service, nullptr);
    const std::string path = "/" + service->full_name() + "/";
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string method = path + service->method(i)->name();
      EXPECT_NE(CodeOf(method), grpc::StatusCode::UNIMPLEMENTED) << method;
    }
    EXPECT_EQ(CodeOf(path + "None"), grpc::StatusCode::UNIMPLEMENTED);
  }
}

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

TEST_F(RpcServerTest, LooksAtItsListenerOverTlsWithoutALineInTheLog) {
  const HandshakeLog log;
  const test::Certificates certificates;
  const std::unique_ptr<Guard> guard =
      Guard::Open(certificates.guard()).value();
  Dispatcher dispatcher(coordinator_, metrics_, *guard);
  const std::unique_ptr<RpcServer> server =
      RpcServer::Start("127.0.0.1:0", dispatcher).value();
  // It notices that it has to listen again, and that it does.
  ASSERT_TRUE(test::BreakListener(server->port()));
  EXPECT_TRUE(
      test::WaitUntil([&] { return !server->Accepting().has_value(); }));
  EXPECT_TRUE(test::WaitUntil([&] { return server->Accepting().has_value(); }));
  EXPECT_THAT(log.Text(), IsEmpty());
  // Unlike a client without TLS.
  grpc::CreateChannel("127.0.0.1:" + std::to_string(server->port()),
                      grpc::InsecureChannelCredentials())
      ->WaitForConnected(std::chrono::system_clock::now() +
                         std::chrono::seconds(1));
  EXPECT_TRUE(test::WaitUntil([&] { return !log.Text().empty(); }));
  EXPECT_THAT(log.Text()[0], AllOf(HasSubstr("event=grpc_message at="),
                                   HasSubstr("wrong version number")));
}

TEST_F(RpcServerTest, WritesFewLinesForManyFailedHandshakes) {
  const HandshakeLog log;
  const test::Certificates certificates;
  const std::unique_ptr<Guard> guard =
      Guard::Open(certificates.guard()).value();
  Dispatcher dispatcher(coordinator_, metrics_, *guard);
  const std::unique_ptr<RpcServer> server =
      RpcServer::Start("127.0.0.1:0", dispatcher).value();
  for (int i = 0; i < 40; ++i) {
    httplib::Client http("127.0.0.1", server->port());
    EXPECT_FALSE(http.Get("/"));  // once it is closed
  }
  EXPECT_TRUE(test::WaitUntil([&] { return !log.Text().empty(); }));
  server->Stop();
  EXPECT_THAT(log.Text(), SizeIs(AllOf(Ge(1), Le(5))));
}

TEST_F(RpcServerTest, RefusesLaterCallsWhenItIsStopped) {
  server_->Stop();
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::UNAVAILABLE);
  server_->Stop();
}

}  // namespace
}  // namespace ucudnn
