#include "coordinator/rest/http_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

constexpr char kPost[] = "POST /v1/plans HTTP/1.1\r\nHost: x\r\n";

// Why the head with these further lines is refused; empty if it is not.
std::string Why(const std::string& lines, const std::string& first = kPost) {
  const Result<HttpHead> head = ParseHttpHead(first + lines + "\r\n");
  return head ? "" : head.error().message;
}

TEST(HttpHeadTest, ReadsWhatDecidesHowARequestIsAnswered) {
  const Result<HttpHead> head = ParseHttpHead(
      "PUT /v1/networks/a?input_shape=x HTTP/1.1\r\nhOST: coord-1:7461\r\n"
      "Content-Type: Text/CSV; charset=utf-8\r\nX: \r\n"
      "Content-Length:\t12 \r\nOrigin: http://coord-1:7461\r\n\r\n");
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->method, "PUT");
  EXPECT_EQ(head->host, "coord-1:7461");
  EXPECT_EQ(head->origin, "http://coord-1:7461");
  EXPECT_EQ(head->content_type, "text/csv");
  EXPECT_EQ(head->content_length, 12U);
}

TEST(HttpHeadTest, RefusesLengthsThatTwoPartiesReadDifferently) {
  EXPECT_EQ(Why("Content-Length: 2\r\n"), "");
  EXPECT_THAT(Why("Content-Length: 2\r\nContent-Length: 38\r\n"),
              HasSubstr("content-length is given twice, now as '38'"));
  EXPECT_THAT(Why("Content-Length: 2\r\nContent-Length: 2\r\n"),
              HasSubstr("given twice"));
  EXPECT_THAT(Why("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
              HasSubstr("Transfer-Encoding is 'chunked'"));
  EXPECT_THAT(Why("Transfer-Encoding: xchunked\r\n"), HasSubstr("xchunked"));
  for (const char* length : {"+2", "-2", "0x2", "2, 2", "", "2 2", "2%32",
                             "99999999999999999999", "18446744073709551618"}) {
    EXPECT_THAT(Why(std::string("Content-Length: ") + length + "\r\n"),
                HasSubstr("a number of bytes is accepted"))
        << length;
  }
}

TEST(HttpHeadTest, RefusesBodiesWhereNoneIsAccepted) {
  for (const char* method : {"GET", "HEAD", "DELETE", "OPTIONS", "PRI"}) {
    const std::string first =
        std::string(method) + " /v1/status HTTP/1.1\r\nHost: x\r\n";
    EXPECT_EQ(Why("Content-Length: 0\r\n", first), "");
    EXPECT_THAT(Why("Content-Length: 36\r\n", first),
                HasSubstr("has a body of 36 bytes"));
  }
}

TEST(HttpHeadTest, RefusesLinesThatTwoPartiesReadDifferently) {
  for (const std::string line :
       {"Content-Length : 2\r\n", " folded\r\n", "X: a\nContent-Length: 2\r\n",
        "X: a\rContent-Length: 2\r\n", "no colon\r\n", ": no name\r\n",
        "X(: a\r\n"}) {
    EXPECT_THAT(Why(line), HasSubstr("NAME: VALUE is accepted")) << line;
  }
  EXPECT_THAT(Why(std::string("X: \0\r\n", 6)), HasSubstr("NAME: VALUE"));
  for (const char* first :
       {"GET /a b HTTP/1.1\r\nHost: x\r\n", "GET  /a HTTP/1.1\r\nHost: x\r\n",
        "GET http://y/a HTTP/1.1\r\nHost: x\r\n", "GET /a HTTP/1.2\r\n",
        "GET /a\tHTTP/1.1\r\n", "G@T /a HTTP/1.1\r\n", "GET /a\r\n", "\r\n"}) {
    EXPECT_THAT(Why("", first), HasSubstr("METHOD /PATH HTTP/1.1 is accepted"))
        << first;
  }
}

TEST(HttpHeadTest, RequiresOneHostOfHttp11) {
  EXPECT_THAT(Why("", "GET / HTTP/1.1\r\n"), HasSubstr("Host is absent"));
  EXPECT_THAT(Why("Host: y\r\n"), HasSubstr("host is given twice"));
  EXPECT_EQ(Why("", "GET / HTTP/1.0\r\n"), "");
}

TEST(HttpHeadTest, RefusesAHeadWithoutEnd) {
  EXPECT_FALSE(ParseHttpHead(kPost));
  EXPECT_FALSE(ParseHttpHead(std::string(kPost) + "\r\nrest"));
}

TEST(HttpHeadTest, KnowsNamesThatNoStrangerCanOwn) {
  for (const char* host :
       {"127.0.0.1", "10.0.0.5:7461", "[::1]:7461", "localhost:7461", "coord-1",
        "coord-1.:7461", "ucudnn-coord.ml.svc:7461", "coord.site.example.org",
        "Coord.Site.Example.org:7461", "a.svc.cluster.local"}) {
    EXPECT_TRUE(IsHostOfOurs(host, "coord.site.example.org")) << host;
  }
  for (const char* host : {"attacker.example.com", "attacker.example.com:7461",
                           "127.0.0.1.nip.io:7461", "localhost.evil.org",
                           "coord.site.example.org.evil.org"}) {
    EXPECT_FALSE(IsHostOfOurs(host, "coord.site.example.org")) << host;
  }
}

TEST(HttpHeadTest, ComparesOrigins) {
  EXPECT_TRUE(IsOriginOf("https://Coord-1:7461", "coord-1:7461"));
  for (const char* origin :
       {"null", "http://coord-1", "http://coord-1:80", "http://evil.org",
        "http://coord-1:7461.evil.org", "coord-1:7461", ""}) {
    EXPECT_FALSE(IsOriginOf(origin, "coord-1:7461")) << origin;
  }
}

}  // namespace
}  // namespace ucudnn
