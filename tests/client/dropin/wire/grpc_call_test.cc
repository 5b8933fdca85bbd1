// One call on a bare socket, answered byte by byte. Without gRPC, so that the
// thread sanitizer sees all of it.

#include "client/dropin/wire/grpc_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/client/dropin/wire/listener.h"

namespace ucudnn {
namespace {

using std::chrono::steady_clock;
using test::Listener;
using ::testing::HasSubstr;

TEST(GrpcCallTest, RefusesPeersThatDoNotSpeakHttp2) {
  const std::vector<std::pair<std::string, const char*>> answers = {
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "16 KiB"},
      {"", "closed"},
      {std::string("\0\0\4", 3), "closed"},
      // Data of another stream; padding longer than its frame; a compressed
      // message; a message of 4 GiB; a short GOAWAY.
      {std::string("\0\0\1\0\0\0\0\0\3x", 10), "unknown stream"},
      {std::string("\0\0\1\0\x8\0\0\0\1\x5", 10), "padding"},
      {std::string("\0\0\5\0\0\0\0\0\1\1\0\0\0\1", 14), "compressed"},
      {std::string("\0\0\5\0\0\0\0\0\1\0\xff\xff\xff\xff", 14), "16 MiB"},
      {std::string("\0\0\x8\7\0\0\0\0\0\0\0\0\0\0\0\0\0", 17), "no message"},
      // Padding longer than the headers.
      {std::string("\0\0\1\1\xd\0\0\0\1\x5", 10), "padding"}};
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

TEST(GrpcCallTest, TellsWhichCredentialsAreRefused) {
  // Headers of their own names, padded and with a priority.
  const std::string payload = std::string("\1\0\0\0\0\0", 6) +
                              std::string("\0\xbgrpc-status\2", 14) + "16" +
                              std::string("\0\xcgrpc-message\4", 15) + "who?" +
                              std::string(1, '\0');
  Listener listener;
  listener.Say(std::string("\0\0", 2) + static_cast<char>(payload.size()) +
               std::string("\1\x2d\0\0\0\1", 6) + payload);
  const auto answer = CallGrpc(listener.address(), "/none", "",
                               steady_clock::now() + std::chrono::seconds(60));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnauthenticated);
  EXPECT_THAT(answer.error().message, HasSubstr("who?"));
}

TEST(GrpcCallTest, ReadsAMessageInPiecesAmongOtherFrames) {
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

TEST(GrpcCallTest, LooksHostsUpByName) {
  Listener listener;
  listener.Say(std::string("\0\0\6\0\0\0\0\0\1\0\0\0\0\1x", 15));
  const auto answer =
      CallGrpc(fmt::format("localhost:{}", listener.port()), "/none", "",
               steady_clock::now() + std::chrono::seconds(60));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, "x");
}

}  // namespace
}  // namespace ucudnn
