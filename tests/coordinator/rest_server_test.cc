#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/health.h"
#include "coordinator/limits.h"
#include "coordinator/metrics.h"
#include "coordinator/rest/page.h"
#include "coordinator/rest/server.h"
#include "proto/job_key.h"
#include "tests/coordinator/break_listener.h"
#include "tests/support/certificates.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RestServerTest : public ::testing::Test {
 protected:
  RestServerTest()
      : store_(OpenStore("sqlite://" + folder_.path() + "/c.db").value()),
        coordinator_(CoordinatorOptions(), *store_, clock_),
        server_(RestServer::Start("127.0.0.1:0", dispatcher_, health_, Page())
                    .value()) {}

  bool Answers() {
    httplib::Client http("127.0.0.1", server_->port());
    const auto answer = http.Get("/livez");
    return answer && answer->status == 200;
  }

  const test::TemporaryFolder folder_;
  const std::unique_ptr<Store> store_;
  const SystemClock clock_;
  Coordinator coordinator_;
  Metrics metrics_;
  Dispatcher dispatcher_{coordinator_, metrics_};
  const Health health_{[] { return Status(); }, [](const Status&) {}};
  std::unique_ptr<RestServer> server_;
};

TEST_F(RestServerTest, StopsBeforeAndAfterItsFirstAnswer) {
  server_->Stop();
  EXPECT_FALSE(Answers());
  server_->Stop();
  server_ =
      RestServer::Start("127.0.0.1:0", dispatcher_, health_, Page()).value();
  EXPECT_TRUE(test::WaitUntil([this] { return Answers(); }));
  server_->Stop();
  EXPECT_FALSE(Answers());
}

TEST_F(RestServerTest, ListensAgainAfterItsListenerBroke) {
  const int port = server_->port();
  ASSERT_TRUE(test::WaitUntil([this] { return Answers(); }));
  ASSERT_TRUE(test::BreakListener(port));
  EXPECT_TRUE(test::WaitUntil([this] { return Answers(); }));
  EXPECT_EQ(server_->port(), port);
}

TEST_F(RestServerTest, ListensOnIpv6AndOnAllAddresses) {
  const auto answers = [](const char* host, int port) {
    httplib::Client http(host, port);
    const auto answer = http.Get("/livez");
    return answer && answer->status == 200;
  };
  for (const char* address : {"[::1]:0", "[::]:0", "0.0.0.0:0"}) {
    const bool all = std::string_view(address) != "[::1]:0";
    const auto rest = RestServer::Start(address, dispatcher_, health_, Page());
    ASSERT_TRUE(rest) << address << ": " << rest.error().message;
    EXPECT_TRUE(answers("::1", (*rest)->port())) << address;
    EXPECT_EQ(answers("127.0.0.1", (*rest)->port()), all) << address;
    const auto probes = RestServer::StartProbes(address, dispatcher_, health_);
    ASSERT_TRUE(probes) << address << ": " << probes.error().message;
    EXPECT_TRUE(answers("::1", (*probes)->port())) << address;
    EXPECT_EQ(answers("127.0.0.1", (*probes)->port()), all) << address;
  }
}

TEST_F(RestServerTest, StopsAfterItsListenerBroke) {
  ASSERT_TRUE(test::WaitUntil([this] { return Answers(); }));
  ASSERT_TRUE(test::BreakListener(server_->port()));
  server_->Stop();  // within the test's time
  EXPECT_FALSE(Answers());
}

// What comes back on one connection for `text`, until the server closes it.
std::string Exchange(int port, const std::string& text) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string all;
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0 &&
      send(socket, text.data(), text.size(), MSG_NOSIGNAL) > 0) {
    shutdown(socket, SHUT_WR);
    std::array<char, 4096> buffer;
    ssize_t size = 0;
    while ((size = recv(socket, buffer.data(), buffer.size(), 0)) > 0) {
      all.append(buffer.data(), static_cast<std::size_t>(size));
    }
  }
  close(socket);
  return all;
}

std::vector<std::string> StatusesIn(const std::string& answers) {
  constexpr std::string_view kLine = "HTTP/1.1 ";
  std::vector<std::string> statuses;
  for (std::size_t at = answers.find(kLine); at != std::string::npos;
       at = answers.find(kLine, at + 1)) {
    const std::string status = answers.substr(at + kLine.size(), 3);
    // Bodies name the protocol, too.
    if (status < "a") statuses.push_back(status);
  }
  return statuses;
}

// What a proxy took for a part of a body must not be a request to us.
TEST_F(RestServerTest, RefusesRequestsWhoseEndTwoPartiesReadDifferently) {
  const std::string hidden = "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string post = "POST /v1/plans HTTP/1.1\r\nHost: x\r\n";
  const std::string length = "Content-Length: ";
  const std::vector<std::string> requests = {
      "GET /v1/status HTTP/1.1\r\nHost: x\r\n" + length + "36\r\n\r\n",
      "DELETE /v1/jobs/a HTTP/1.1\r\nHost: x\r\n" + length + "36\r\n\r\n",
      post + length + "2\r\n" + length + "38\r\n\r\n{}",
      post + length + "41\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: xchunked\r\n" + length + "2\r\n\r\n{}",
      post + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
      post + length + "+2\r\n\r\n{}",
      post + length + "36\r\n folded\r\n\r\n",
      post + "Content-Length : 2\r\n\r\n{}",
      post + "X: a\n" + length + "2\r\n\r\n{}",
      post + "X: a\r" + length + "2\r\n\r\n{}",
      post + "no colon\r\n\r\n",
      post + "X(: a\r\n\r\n",
      post + std::string("X: \0\r\n\r\n", 8),
      post + "Host: y\r\n\r\n",
      "MAKE /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"};
  for (const std::string& request : requests) {
    EXPECT_THAT(StatusesIn(Exchange(server_->port(), request + hidden)),
                ElementsAre("400"))
        << request;
  }
  for (const char* value :
       {"-2", "0x2", "2, 2", "", "2 2", "99999999999999999999"}) {
    EXPECT_THAT(StatusesIn(Exchange(server_->port(), post + length + value +
                                                         "\r\n\r\n" + hidden)),
                ElementsAre("400"))
        << value;
  }
  for (const char* line :
       {"GET /a b HTTP/1.1", "GET  /a HTTP/1.1", "GET http://y/a HTTP/1.1",
        "GET /a HTTP/1.2", "GET /a\tHTTP/1.1", "G@T /a HTTP/1.1", "GET /a"}) {
    EXPECT_THAT(StatusesIn(Exchange(
                    server_->port(),
                    line + std::string("\r\nHost: x\r\n\r\n") + hidden)),
                ElementsAre("400"))
        << line;
  }
  EXPECT_THAT(StatusesIn(Exchange(server_->port(), "GET / HTTP/1.1\r\n\r\n")),
              ElementsAre("400"));
  EXPECT_THAT(StatusesIn(Exchange(server_->port(), hidden + hidden)),
              ElementsAre("200", "200"));
}

TEST_F(RestServerTest, AnswersRequestsWithoutALengthAtOnce) {
  const std::string head = " HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_THAT(StatusesIn(Exchange(server_->port(),
                                  "DELETE /v1/jobs/a" + head + "GET /livez" +
                                      head + "DELETE /v1/jobs/a" + head)),
              ElementsAre("404", "200", "404"));
}

TEST_F(RestServerTest, RefusesBodiesByTheirHeads) {
  const auto refused = [&](const std::string& line,
                           const std::string& headers) {
    return StatusesIn(Exchange(
        server_->port(), line + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n"));
  };
  const std::string csv = "Content-Type: text/csv\r\n";
  const std::string json = "Content-Type: application/json\r\n";
  EXPECT_THAT(refused("PUT /v1/networks/a",
                      csv + "Content-Length: 4611686018427387904\r\n"),
              ElementsAre("413"));
  EXPECT_THAT(refused("POST /v1/plans", json + "Content-Length: 4194305\r\n"),
              ElementsAre("413"));
  EXPECT_THAT(refused("POST /v1/plans", json + "Content-Length: 4194305\r\n"
                                               "Expect: 100-continue\r\n"),
              ElementsAre("413"));
  EXPECT_THAT(refused("PUT /nothing", csv + "Content-Length: 9\r\n"),
              ElementsAre("404"));
  EXPECT_THAT(refused("PATCH /v1/networks/a", csv + "Content-Length: 9\r\n"),
              ElementsAre("405"));
  EXPECT_THAT(refused("PUT /v1/networks/a", json + "Content-Length: 9\r\n"),
              ElementsAre("415"));
}

TEST_F(RestServerTest, NamesTheTypesOfBodiesThatACallTakes) {
  httplib::Client http("127.0.0.1", server_->port());
  const auto network = http.Put("/v1/networks/a", "{}", "application/json");
  ASSERT_TRUE(network);
  EXPECT_EQ(network->status, 415);
  EXPECT_THAT(network->body,
              HasSubstr("text/csv or application/octet-stream is accepted"));
  const auto step = http.Put("/v1/steps/a", "{}", "text/csv");
  ASSERT_TRUE(step);
  EXPECT_EQ(step->status, 415);
  EXPECT_THAT(step->body, HasSubstr("application/json is accepted"));
}

// Browsers send a token that they know with the requests of any site's page;
// only those that it may send without asking us first reach us.
TEST_F(RestServerTest, RefusesRequestsOfOtherSitesPages) {
  httplib::Client http("127.0.0.1", server_->port());
  const std::string own = "127.0.0.1:" + std::to_string(server_->port());
  const auto status = [&](const httplib::Result& answer) {
    return answer ? answer->status : 0;
  };
  EXPECT_EQ(status(http.Post("/v1/measure", "{}", "text/plain")), 415);
  EXPECT_EQ(status(http.Post("/v1/measure", "{}",
                             "application/x-www-form-urlencoded")),
            415);
  EXPECT_EQ(status(http.Post("/v1/prune", {{"Origin", "http://evil.org"}}, "{}",
                             "application/json")),
            403);
  EXPECT_EQ(status(http.Get("/v1/status", {{"Origin", "null"}})), 403);
  EXPECT_EQ(status(http.Delete("/v1/jobs/a", {{"Origin", "http://evil.org"}})),
            403);
  EXPECT_EQ(status(http.Get("/v1/status", {{"Origin", "http://" + own}})), 200);
  EXPECT_EQ(status(http.Options("/v1/status", {{"Origin", "http://evil.org"}})),
            403);
}

TEST_F(RestServerTest, RefusesNamesThatAStrangerMayHavePointedAtUs) {
  httplib::Client http("127.0.0.1", server_->port());
  const auto refused = http.Get("/v1/status", {{"Host", "evil.org:7461"}});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 421);
  EXPECT_THAT(refused->body, HasSubstr("Host is 'evil.org:7461'"));
  EXPECT_EQ(http.Get("/v1/status", {{"Host", "coord-1:7461"}})->status, 200);
}

class RestOverTlsTest : public ::testing::Test {
 protected:
  std::unique_ptr<httplib::SSLClient> Client(
      const CredentialFiles& files) const {
    auto client = std::make_unique<httplib::SSLClient>(
        "127.0.0.1", server_->port(), files.cert, files.key);
    client->set_ca_cert_path(files.ca.c_str());
    return client;
  }
  static int Get(httplib::SSLClient& client, const std::string& path,
                 const httplib::Headers& headers = {}) {
    const auto answer = client.Get(path, headers);
    return answer ? answer->status : 0;
  }

  test::Certificates certificates_;
  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  const SystemClock clock_{};
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
  Metrics metrics_;
  const std::unique_ptr<Guard> guard_ =
      Guard::Open(certificates_.guard()).value();
  Dispatcher dispatcher_{coordinator_, metrics_, *guard_};
  const Health health_{[] { return Status(); }, [](const Status&) {}};
  std::unique_ptr<RestServer> server_ =
      RestServer::Start("127.0.0.1:0", dispatcher_, health_, Page()).value();
};

TEST_F(RestOverTlsTest, AnswersByCertificateOrToken) {
  const auto viewer = Client(certificates_.Issue(Role::kViewer, "v"));
  EXPECT_EQ(Get(*viewer, "/v1/status"), 200);
  EXPECT_EQ(Get(*viewer, "/metrics"), 200);
  EXPECT_EQ(viewer->Put("/v1/networks/n", "name\n", "text/csv")->status, 403);
  const auto agent = Client(certificates_.Issue(Role::kAgent, "a"));
  EXPECT_EQ(Get(*agent, "/v1/status"), 403);
  EXPECT_EQ(Get(*agent, "/metrics"), 403);

  const auto stranger = Client(certificates_.ca());
  EXPECT_EQ(Get(*stranger, "/livez"), 200);
  EXPECT_EQ(Get(*stranger, "/readyz"), 200);
  EXPECT_EQ(Get(*stranger, "/metrics"), 401);
  const auto asked = stranger->Get("/v1/status");
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->status, 401);
  EXPECT_TRUE(asked->has_header("WWW-Authenticate"));
  const std::string token = certificates_.AddToken(Role::kViewer, "t");
  EXPECT_TRUE(test::WaitUntil([&] {
    return Get(*stranger, "/v1/status",
               {{"Authorization", "Bearer " + token}}) == 200;
  }));
  EXPECT_EQ(Get(*stranger, "/v1/status",
                {httplib::make_basic_authentication_header("anybody", token)}),
            200);
  EXPECT_EQ(Get(*stranger, "/v1/status",
                {httplib::make_basic_authentication_header(token, "x")}),
            401);
}

TEST_F(RestOverTlsTest, TakesTheCallsOfAJobWithItsKeyAlone) {
  const auto job = Client(certificates_.Issue(Role::kJob, "j"));
  const auto alice = Client(certificates_.Issue(Role::kOperator, "alice"));
  const std::string key = NewJobKey();
  const std::string path = "/v1/jobs/" + JobIdOf(key);
  const std::vector<std::pair<std::string, std::string>> calls = {
      {"/v1/jobs",
       R"({"ranks": [{"rank": 0}], "job_id": ")" + JobIdOf(key) + "\"}"},
      {path + "/steps",
       R"({"batches": [{"revision": 1, "step_us": [20, 21.5]}]})"},
      {path + "/revision", R"({"revision": 1})"},
      {path + "/finish", "{}"},
  };
  const auto post = [](httplib::SSLClient& client, const auto& call,
                       const httplib::Headers& headers) {
    const auto answer = client.Post(call.first.c_str(), headers, call.second,
                                    "application/json");
    return answer ? answer->status : 0;
  };
  const httplib::Headers own = {{kJobKeyHeader, key}};
  for (const auto& call : calls) {
    EXPECT_EQ(post(*job, call, {}), 403) << call.first;
    EXPECT_EQ(post(*job, call, {{kJobKeyHeader, NewJobKey()}}), 403);
    EXPECT_EQ(post(*alice, call, own), 403) << call.first;
    EXPECT_EQ(post(*job, call, own), 200) << call.first;
  }
  // A repeated report counts once.
  EXPECT_EQ(post(*job, calls[1], own), 200);
  const auto rank = job->Get(path + "/ranks/0");
  ASSERT_TRUE(rank);
  EXPECT_THAT(rank->body, HasSubstr("\"count\": 2,"));
  EXPECT_THAT(rank->body, HasSubstr("21.5"));
}

TEST_F(RestOverTlsTest, RefusesExpiredForeignAndPlaintextClients) {
  EXPECT_EQ(Get(*Client(certificates_.Issue(Role::kAdmin, "late",
                                            std::chrono::seconds(-1))),
                "/livez"),
            0);
  const test::Certificates others("test");
  CredentialFiles foreign = others.Issue(Role::kAdmin, "a");
  foreign.ca = certificates_.ca().ca;
  EXPECT_EQ(Get(*Client(foreign), "/livez"), 0);
  httplib::Client plaintext("127.0.0.1", server_->port());
  EXPECT_FALSE(plaintext.Get("/livez"));
}

TEST_F(RestOverTlsTest, RefusesRevokedCertificates) {
  const CredentialFiles files = certificates_.Issue(Role::kViewer, "v");
  const auto viewer = Client(files);
  EXPECT_EQ(Get(*viewer, "/v1/status"), 200);
  certificates_.Revoke(files);
  EXPECT_TRUE(
      test::WaitUntil([&] { return Get(*viewer, "/v1/status") == 401; }));
}

TEST_F(RestOverTlsTest, ReadsAndRefusesLongBodies) {
  const auto client = Client(certificates_.Issue(Role::kOperator, "o"));
  std::string csv =
      "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
      "conv1,3,8,8,8,3,3,1,1,1,1,1\n";
  csv += std::string(std::size_t{5} << 20U, '\n');  // empty lines
  const auto put = client->Put("/v1/networks/n", csv, "text/csv");
  ASSERT_TRUE(put);
  EXPECT_EQ(put->status, 200) << put->body;
  const auto refused =
      Client(certificates_.Issue(Role::kOperator, "p"))
          ->Put("/v1/networks/n",
                std::string(std::size_t{kMaxRequestBytes} + 1, 'x'),
                "text/csv");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 413);
}

// Before anybody reads, measures or parses what they send.
TEST_F(RestOverTlsTest, RefusesStrangersBeforeTheirBodies) {
  const auto stranger = Client(certificates_.ca());
  for (const std::string& body :
       {std::string("{"), std::string(kMaxJsonBytes + 1, ' ')}) {
    const auto answer = stranger->Post("/v1/plans", body, "application/json");
    ASSERT_TRUE(answer) << body.size();
    EXPECT_EQ(answer->status, 401) << body.size();
  }
}

TEST_F(RestOverTlsTest, IsCalledByAnyNameOfItsCertificate) {
  const auto viewer = Client(certificates_.Issue(Role::kViewer, "v"));
  EXPECT_EQ(Get(*viewer, "/v1/status", {{"Host", "coord.example.org"}}), 200);
}

}  // namespace
}  // namespace ucudnn
