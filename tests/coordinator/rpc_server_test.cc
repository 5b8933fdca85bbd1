#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/health.h"
#include "coordinator/limits.h"
#include "coordinator/metrics.h"
#include "coordinator/rest/server.h"
#include "coordinator/rpc/server.h"
#include "coordinator/security/guard.h"
#include "tests/coordinator/break_listener.h"
#include "tests/support/certificates.h"
#include "tests/support/process.h"
#include "ucudnn/v1/agent.grpc.pb.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
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

  // Of a metric without labels.
  int Metric(const std::string& name) const {
    const std::string text = metrics_.Text({}, std::chrono::nanoseconds(0),
                                           coordinator_.context.activity);
    const std::string line = "\n" + name + " ";
    const std::size_t at = text.find(line);
    return at == std::string::npos ? -1
                                   : std::stoi(text.substr(at + line.size()));
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
  EXPECT_TRUE(test::WaitUntil([this] { return Call().ok(); }));
  EXPECT_TRUE(server_->Accepting());
  EXPECT_EQ(server_->port(), port);
}

class TlsRpcServerTest : public RpcServerTest {
 protected:
  const HandshakeLog log_;
  const test::Certificates certificates_;
  const std::unique_ptr<Guard> guard_ =
      Guard::Open(certificates_.guard()).value();
  Dispatcher tls_dispatcher_{coordinator_, metrics_, *guard_};
  const std::unique_ptr<RpcServer> tls_server_ =
      RpcServer::Start("127.0.0.1:0", tls_dispatcher_).value();
};

TEST_F(TlsRpcServerTest, WritesFewLinesForManyFailedHandshakes) {
  for (int i = 0; i < 40; ++i) {
    httplib::Client http("127.0.0.1", tls_server_->port());
    EXPECT_FALSE(http.Get("/"));  // once it is closed
  }
  EXPECT_TRUE(test::WaitUntil([&] { return !log_.Text().empty(); }));
  tls_server_->Stop();
  EXPECT_THAT(log_.Text(), SizeIs(AllOf(Ge(1), Le(5))));
}

// Many calls over a connection of HTTP/2 whose window is 0: no answer can be
// written.
class DeafClient {
 public:
  DeafClient(int port, const std::string& method, int calls)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    UCUDNN_CHECK(connect(socket_, reinterpret_cast<const sockaddr*>(&address),
                         sizeof(address)) == 0);
    std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    bytes += Frame(4, 0, 0, std::string("\0\4\0\0\0\0", 6));
    std::string headers;
    for (const auto& [name, value] :
         {std::pair<std::string, std::string>{":method", "POST"},
          {":scheme", "http"},
          {":path", method},
          {":authority", "localhost"},
          {"content-type", "application/grpc"},
          {"te", "trailers"}}) {
      headers += std::string(1, '\0') + Text(name) + Text(value);
    }
    for (int i = 0; i < calls; ++i) {
      bytes += Frame(1, 4, 2 * i + 1, headers);
      bytes += Frame(0, 1, 2 * i + 1, std::string(5, '\0'));  // no message
    }
    UCUDNN_CHECK(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                 static_cast<ssize_t>(bytes.size()));
  }
  ~DeafClient() { close(socket_); }
  DeafClient(const DeafClient&) = delete;
  DeafClient& operator=(const DeafClient&) = delete;

 private:
  static std::string Text(const std::string& text) {
    return std::string(1, static_cast<char>(text.size())) + text;
  }
  static std::string Frame(int type, int flags, int stream,
                           const std::string& content) {
    std::string frame;
    for (const int shift : {16, 8, 0}) {
      frame += static_cast<char>(content.size() >> shift);
    }
    frame += static_cast<char>(type);
    frame += static_cast<char>(flags);
    for (const int shift : {24, 16, 8, 0}) {
      frame += static_cast<char>(stream >> shift);
    }
    return frame + content;
  }

  const int socket_;
};

TEST_F(RpcServerTest, AnswersOthersWhateverAClientDoesNotRead) {
  const auto stub = v1::AgentService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                          grpc::InsecureChannelCredentials()));
  const Health health([this] { return server_->Accepting(); },
                      [](const Status&) {});
  const auto rest =
      RestServer::StartProbes("127.0.0.1:0", dispatcher_, health).value();
  std::list<DeafClient> deaf;
  for (int i = 0; i < 3; ++i) {
    deaf.emplace_back(server_->port(),
                      "/ucudnn.v1.CoordinatorService/GetStatus", 100);
  }
  // More than there are threads; some may be refused, which needs no window.
  EXPECT_TRUE(test::WaitUntil([this] {
    return Metric("ucudnn_rpc_answers_unread") >=
           static_cast<int>(kMaxShortCalls + kMaxWaitingShortCalls);
  }));
  EXPECT_TRUE(Call().ok());
  EXPECT_EQ(httplib::Client("127.0.0.1", rest->port()).Get("/readyz")->status,
            200);
  grpc::ClientContext context;
  v1::HeartbeatRequest beat;
  beat.set_agent_id("agent");
  v1::HeartbeatResponse heard;
  EXPECT_EQ(stub->Heartbeat(&context, beat, &heard).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(RpcServerTest, EndsCallsWhoseAnswersAreNotRead) {
  const auto server = RpcServer::Start("127.0.0.1:0", dispatcher_,
                                       std::chrono::milliseconds(100))
                          .value();
  const DeafClient deaf(server->port(),
                        "/ucudnn.v1.CoordinatorService/GetStatus", 5);
  EXPECT_TRUE(test::WaitUntil(
      [&] { return Metric("ucudnn_rpc_answers_dropped_total") == 5; }));
}

TEST_F(RpcServerTest, RefusesLaterCallsWhenItIsStopped) {
  server_->Stop();
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::UNAVAILABLE);
  server_->Stop();
}

}  // namespace
}  // namespace ucudnn
