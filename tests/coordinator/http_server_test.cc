// The places that an HTTP server has for connections, and who loses his.

#include "coordinator/rest/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <latch>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/limits.h"
#include "coordinator/security/guard.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::IsEmpty;
using ::testing::StartsWith;

// A connection from 127.0.0.`host`.
class Client {
 public:
  Client(int port, unsigned host)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)),
              0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(socket_); }

  void Send(const std::string& text) const {
    send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  void Get(const std::string& path) const {
    Send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  // What comes next; empty once the server has closed.
  std::string Receive() const {
    std::array<char, 4096> buffer;
    const ssize_t size = recv(socket_, buffer.data(), buffer.size(), 0);
    return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
  }

 private:
  const int socket_;
};

// Four places.
class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    http_.Get("/ok", [](const HttpRequest&) { return HttpResponse(); });
    // Has the server's only thread wait.
    http_.Get("/block", [this](const HttpRequest&) {
      blocked_.count_down();
      go_on_.wait();
      return HttpResponse();
    });
    http_.Route("GET", "/hold", [this](const auto&, HttpReply reply) {
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(reply));
    });
    HttpBody body;
    body.max_bytes = 100;
    body.types = {"text/csv"};
    http_.Route(
        "PUT", "/put", [](const auto&, const HttpReply& reply) { reply({}); },
        body);
    UCUDNN_CHECK(http_.Listen("127.0.0.1:0").has_value());
  }
  ~HttpServerTest() override {
    for (const HttpReply& reply : held_) reply({});
  }

  // Has the client's request answered only in the end.
  void Hold(const Client& client) {
    const std::size_t before = Held();
    client.Get("/hold");
    EXPECT_TRUE(test::WaitUntil([&] { return Held() > before; }));
  }
  std::size_t Held() {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }

  static constexpr char kOk[] = "HTTP/1.1 200 ";

  std::latch blocked_{1};
  std::latch go_on_{1};
  std::mutex mutex_;
  std::vector<HttpReply> held_;
  HttpServer http_{4, Guard::None()};
};

TEST_F(HttpServerTest, GivesThePlaceOfTheLongestWithoutARequest) {
  const auto start = std::chrono::steady_clock::now();
  const Client first(http_.port(), 1);
  Hold(first);
  const Client second(http_.port(), 2);
  const Client third(http_.port(), 2);
  const Client fourth(http_.port(), 3);
  const Client fifth(http_.port(), 4);
  fifth.Get("/ok");
  third.Get("/ok");
  EXPECT_THAT(fifth.Receive(), StartsWith(kOk));
  const std::string answer = third.Receive();
  // Later others would have been closed too, since many are open.
  if (std::chrono::steady_clock::now() - start < kHttpCrowded) {
    EXPECT_THAT(answer, StartsWith(kOk));
  }
  EXPECT_THAT(second.Receive(), IsEmpty());
}

TEST_F(HttpServerTest, GivesASourceHalfOfThePlaces) {
  const Client first(http_.port(), 1);
  Hold(first);
  const Client second(http_.port(), 1);
  const Client third(http_.port(), 1);
  Hold(third);
  EXPECT_THAT(second.Receive(), IsEmpty());
  const Client fourth(http_.port(), 1);
  EXPECT_THAT(fourth.Receive(), StartsWith("HTTP/1.1 503 "));
  const Client other(http_.port(), 2);
  other.Get("/ok");
  EXPECT_THAT(other.Receive(), StartsWith(kOk));
}

TEST_F(HttpServerTest, LeavesThoseWhoseRequestIsYetToBeRead) {
  const Client asking(http_.port(), 1);
  const Client idle(http_.port(), 1);
  const Client blocking(http_.port(), 2);
  blocking.Get("/block");
  blocked_.wait();
  asking.Get("/ok");
  const Client third(http_.port(), 1);
  third.Get("/ok");
  go_on_.count_down();
  EXPECT_THAT(asking.Receive(), StartsWith(kOk));
  EXPECT_THAT(third.Receive(), StartsWith(kOk));
  EXPECT_THAT(idle.Receive(), IsEmpty());
}

TEST_F(HttpServerTest, LetsClientsSendForAWhile) {
  const Client held(http_.port(), 1);
  Hold(held);
  const Client sending(http_.port(), 1);
  sending.Send(
      "PUT /put HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n"
      "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_THAT(sending.Receive(), StartsWith("HTTP/1.1 100 "));
  const Client third(http_.port(), 1);
  EXPECT_THAT(third.Receive(), StartsWith("HTTP/1.1 503 "));
  sending.Send("ab");
  EXPECT_THAT(sending.Receive(), StartsWith(kOk));
}

TEST_F(HttpServerTest, EndsAnAnswerThatBreaksOff) {
  HttpServer http(4, Guard::None());
  http.Get("/pieces", [](const HttpRequest&) {
    HttpResponse response;
    response.body = "first";
    response.next = [](const HttpResponse::Give& give) {
      give(Fail(Code::kUnavailable, "no more"));
    };
    return response;
  });
  ASSERT_TRUE(http.Listen("127.0.0.1:0"));
  const Client client(http.port(), 1);
  client.Get("/pieces");
  std::string all;
  for (std::string more; !(more = client.Receive()).empty();) all += more;
  EXPECT_THAT(all, ::testing::EndsWith("\r\n\r\n5\r\nfirst\r\n"));
}

}  // namespace
}  // namespace ucudnn
