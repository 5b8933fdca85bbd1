// Questions to real gRPC servers, and to what is none.

#include "client/local/ask_coordinator.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "client/local/grpc_call.h"
#include "proto/convert.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn {
namespace {

using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

ConvProblem Problem() {
  ConvProblem problem;
  problem.geometry.channels = 3;
  return problem;
}

// A socket of ours that listens; what connects to it waits in its queue unless
// it is told to say something.
class Listener {
 public:
  Listener() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    UCUDNN_CHECK(bind(descriptor_, raw, size) == 0);
    UCUDNN_CHECK(listen(descriptor_, 8) == 0);
    UCUDNN_CHECK(getsockname(descriptor_, raw, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() {
    if (thread_.joinable()) thread_.join();
    close(descriptor_);
  }

  // Answers the next connection with `text`, and closes it.
  void Say(std::string text) {
    thread_ = std::thread([this, text = std::move(text)] {
      const int connection = accept(descriptor_, nullptr, nullptr);
      // Wait for the request, so that closing does not take the answer back.
      char byte = 0;
      (void)!read(connection, &byte, 1);
      (void)!write(connection, text.data(), text.size());
      shutdown(connection, SHUT_WR);
      while (read(connection, &byte, 1) > 0) {
      }
      close(connection);
    });
  }

  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  int descriptor_;
  int port_ = 0;
  std::thread thread_;
};

// Nobody listens there, and nobody else can.
class ClosedPort {
 public:
  ClosedPort() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    UCUDNN_CHECK(bind(descriptor_, raw, size) == 0);
    UCUDNN_CHECK(getsockname(descriptor_, raw, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~ClosedPort() { close(descriptor_); }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  int descriptor_;
  int port_ = 0;
};

v1::ProblemProfile Profile(std::int64_t batches) {
  v1::ProblemProfile profile;
  for (std::int64_t batch = 1; batch <= batches; ++batch) {
    MeasuredPoint point;
    point.batch = BatchSize(batch);
    point.algorithm = {"GEMM", "FMA", Precision::kFp32};
    point.time = Nanoseconds(batch);
    *profile.add_measurements() = ToProto(point);
  }
  return profile;
}

TEST(AskCoordinatorTest, AsksAGrpcService) {
  ScriptedCoordinator coordinator;
  coordinator.get_problem_profile =
      [](const v1::GetProblemProfileRequest& request)
      -> Result<v1::ProblemProfile> {
    EXPECT_EQ(request.kind(), "a kind");
    EXPECT_EQ(request.problem(), ToString(Problem()));
    return Profile(2);
  };
  CoordinatorAsker asker({coordinator.address()});
  for (int time = 0; time < 3; ++time) {
    const auto known = asker.Ask("a kind", Problem());
    ASSERT_TRUE(known) << known.error().message;
    EXPECT_THAT(known->points, SizeIs(2));
  }
}

TEST(AskCoordinatorTest, ReadsAnswersOfMegabytes) {
  ScriptedCoordinator coordinator;
  coordinator.get_problem_profile =
      [](const auto&) -> Result<v1::ProblemProfile> { return Profile(60'000); };
  CoordinatorAsker asker({coordinator.address()},
                         {.within = std::chrono::seconds(60)});
  const auto known = asker.Ask("a kind", Problem());
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_THAT(known->points, SizeIs(60'000));
}

TEST(AskCoordinatorTest, FindsHostsByName) {
  ScriptedCoordinator coordinator;
  coordinator.get_problem_profile =
      [](const auto&) -> Result<v1::ProblemProfile> { return Profile(1); };
  const std::string port =
      coordinator.address().substr(coordinator.address().find(':'));
  CoordinatorAsker asker({"localhost" + port},
                         {.within = std::chrono::seconds(60)});
  const auto known = asker.Ask("a kind", Problem());
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_THAT(known->points, SizeIs(1));
}

TEST(AskCoordinatorTest, GoesOnToTheNextAndStaysThere) {
  const ClosedPort closed;
  ScriptedCoordinator refusing;  // an older one: UNIMPLEMENTED
  ScriptedCoordinator coordinator;
  coordinator.get_problem_profile =
      [](const auto&) -> Result<v1::ProblemProfile> { return Profile(1); };
  CoordinatorAsker asker(
      {closed.address(), refusing.address(), coordinator.address()},
      {.within = std::chrono::seconds(60)});
  ASSERT_TRUE(asker.Ask("a kind", Problem()));
  ASSERT_TRUE(asker.Ask("a kind", Problem()));
  EXPECT_THAT(refusing.calls(), ElementsAre("GetProblemProfile"));
  EXPECT_THAT(coordinator.calls(), SizeIs(2));
}

TEST(AskCoordinatorTest, IsSilentForAWhileAfterAFailure) {
  const ClosedPort closed;
  auto now = steady_clock::time_point();
  CoordinatorAsker asker({closed.address()}, {.pause = std::chrono::seconds(30),
                                              .now = [&] { return now; }});
  const auto first = asker.Ask("a kind", Problem());
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Code::kUnavailable);
  EXPECT_THAT(first.error().message,
              AllOf(HasSubstr(closed.address()), HasSubstr("refused")));
  now += std::chrono::seconds(29);
  EXPECT_THAT(asker.Ask("a kind", Problem()).error().message,
              HasSubstr("away"));
  now += std::chrono::seconds(1);
  EXPECT_THAT(asker.Ask("a kind", Problem()).error().message,
              HasSubstr("refused"));
}

TEST(AskCoordinatorTest, DoesNotWaitForOneThatHangs) {
  const Listener hanging;
  ScriptedCoordinator coordinator;
  coordinator.get_problem_profile =
      [](const auto&) -> Result<v1::ProblemProfile> { return Profile(1); };
  // The one that hangs leaves time for the other.
  CoordinatorAsker asker({hanging.address(), coordinator.address()},
                         {.within = std::chrono::seconds(2)});
  EXPECT_TRUE(asker.Ask("a kind", Problem()));

  const auto alone =
      CallGrpc(hanging.address(), "/none", "",
               steady_clock::now() + std::chrono::milliseconds(20));
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, Code::kDeadlineExceeded);
}

TEST(GrpcCallTest, SaysThatAServiceAnswersWithoutAMessage) {
  ScriptedCoordinator coordinator;
  const auto answer =
      CallGrpc(coordinator.address(), "/ucudnn.v1.CoordinatorService/GetStatus",
               "", steady_clock::now() + std::chrono::seconds(60));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("no message"));
}

TEST(GrpcCallTest, RefusesWhatIsNoHttp2) {
  const std::vector<std::pair<std::string, const char*>> answers = {
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "16 KiB"},
      {"", "closed"},
      {std::string("\0\0\4", 3), "closed"},
      // Data of another call; padding longer than its frame; a message that is
      // compressed; one of 4 GiB; a goodbye.
      {std::string("\0\0\1\0\0\0\0\0\3x", 10), "no call"},
      {std::string("\0\0\1\0\x8\0\0\0\1\x5", 10), "padding"},
      {std::string("\0\0\5\0\0\0\0\0\1\1\0\0\0\1", 14), "compressed"},
      {std::string("\0\0\5\0\0\0\0\0\1\0\xff\xff\xff\xff", 14), "16 MiB"},
      {std::string("\0\0\x8\7\0\0\0\0\0\0\0\0\0\0\0\0\0", 17), "no message"}};
  for (const auto& [text, why] : answers) {
    Listener listener;
    listener.Say(text);
    const auto answer =
        CallGrpc(listener.address(), "/none", "",
                 steady_clock::now() + std::chrono::seconds(60));
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().message, HasSubstr(why));
  }
}

TEST(GrpcCallTest, TakesAMessageInPiecesAmongOtherFrames) {
  const std::string text =
      std::string("\0\0\0\4\0\0\0\0\0", 9) +                    // settings
      std::string("\0\0\x8\6\0\0\0\0\0abcdefgh", 17) +          // a ping
      std::string("\0\0\1\1\4\0\0\0\1x", 10) +                  // headers
      std::string("\0\0\x8\0\x8\0\0\0\1\1\0\0\0\0\2h\0", 17) +  // padded data
      std::string("\0\0\1\0\0\0\0\0\1i", 10);
  Listener listener;
  listener.Say(text);
  const auto answer = CallGrpc(listener.address(), "/none", "",
                               steady_clock::now() + std::chrono::seconds(60));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, "hi");
}

}  // namespace
}  // namespace ucudnn
