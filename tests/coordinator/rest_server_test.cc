#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <memory>
#include <string>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/health.h"
#include "coordinator/limits.h"
#include "coordinator/metrics.h"
#include "coordinator/rest/page.h"
#include "coordinator/rest/server.h"
#include "tests/coordinator/break_listener.h"
#include "tests/support/certificates.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

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

TEST_F(RestServerTest, StopsAfterItsListenerBroke) {
  ASSERT_TRUE(test::WaitUntil([this] { return Answers(); }));
  ASSERT_TRUE(test::BreakListener(server_->port()));
  server_->Stop();  // within the test's time
  EXPECT_FALSE(Answers());
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

}  // namespace
}  // namespace ucudnn
