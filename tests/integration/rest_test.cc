// The REST interface of a real coordinator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include "tests/integration/cluster.h"
#include "tests/integration/http.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr const char* kOneLayer =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,8,3,3,1,1,1,1,1\n";

class RestTest : public ::testing::Test {
 protected:
  RestTest() {
    cluster_.StartCoordinators();
    http_ = std::make_unique<httplib::Client>(HttpOf(cluster_));
  }

  static json Body(const httplib::Result& result) {
    return json::parse(result->body, nullptr, /*allow_exceptions=*/false);
  }

  Cluster cluster_;
  std::unique_ptr<httplib::Client> http_;
};

TEST_F(RestTest, StoresANetwork) {
  const auto put = http_->Put("/v1/networks/tiny", kOneLayer, "text/csv");
  ASSERT_EQ(put->status, 200) << put->body;
  EXPECT_EQ(Body(put)["revision"], 1);
  EXPECT_EQ(Body(put)["layers"][0]["input"], json({8, 8}));
  EXPECT_EQ(Body(http_->Put("/v1/networks/tiny", kOneLayer, "text/csv")),
            Body(put));
  EXPECT_EQ(Body(http_->Get("/v1/networks/tiny")), Body(put));
  EXPECT_EQ(Body(http_->Get("/v1/networks"))["networks"].size(), 1U);
}

TEST_F(RestTest, ReturnsTheSamePlanForTheSameRequest) {
  cluster_.StartAgent();
  http_->Put("/v1/networks/tiny", kOneLayer, "text/csv");
  const char* request =
      R"({"network":"tiny","batch":4,"workspace_limit_bytes":1048576})";
  std::string answer;
  // 409 until everything is measured.
  ASSERT_TRUE(WaitUntil([&] {
    const auto post = http_->Post("/v1/plans", request, "application/json");
    answer = post ? post->body : "no answer";
    return post && post->status == 200;
  })) << answer
      << cluster_.Log();
  const json plan = json::parse(answer);
  EXPECT_EQ(plan["ranks"][0]["workspace"]["kernels"].size(), 2U);
  EXPECT_EQ(Body(http_->Post("/v1/plans", request, "application/json")), plan);
  EXPECT_EQ(
      Body(http_->Get("/v1/plans/" + std::to_string(plan["id"].get<int>()))),
      plan);
  EXPECT_EQ(Body(http_->Get("/v1/plans"))["plans"][0]["id"], plan["id"]);
  const json profiles = Body(http_->Get("/v1/profiles"))["profiles"];
  ASSERT_EQ(profiles.size(), 1U);
  std::string kind = profiles[0]["id"];
  for (std::size_t i = 0; (i = kind.find(' ', i)) != std::string::npos;) {
    kind.replace(i, 1, "%20");
  }
  const auto profile = http_->Get("/v1/profiles/" + kind);
  EXPECT_EQ(profile->status, 200) << profile->body;
  EXPECT_EQ(Body(http_->Get("/v1/agents"))["agents"][0]["state"], "online");
  EXPECT_EQ(Body(http_->Get("/v1/devices"))["devices"].size(), 1U);
  EXPECT_EQ(Body(http_->Get("/v1/jobs"))["jobs"], json::array());
}

TEST_F(RestTest, TellsWhatWasMeasuredForAPlanAndTheFrontOfItsKernels) {
  cluster_.StartAgent();
  http_->Put("/v1/networks/tiny", kOneLayer, "text/csv");
  const char* request =
      R"({"network":"tiny","batch":4,"workspace_limit_bytes":1048576})";
  json plan;
  ASSERT_TRUE(WaitUntil([&] {
    const auto post = http_->Post("/v1/plans", request, "application/json");
    if (post && post->status == 200) plan = Body(post);
    return plan.is_object();
  })) << cluster_.Log();
  const json campaigns = Body(http_->Get("/v1/campaigns"))["campaigns"];
  ASSERT_EQ(campaigns.size(), 1U);
  EXPECT_EQ(campaigns[0]["state"], "finished");
  EXPECT_EQ(campaigns[0]["request"]["network"], "tiny");
  EXPECT_EQ(campaigns[0]["done"], campaigns[0]["total"]);
  const std::string id = campaigns[0]["id"].dump();
  EXPECT_EQ(Body(http_->Get("/v1/campaigns/" + id)), campaigns[0]);

  const std::string front =
      "/v1/plans/" + plan["id"].dump() + "/front?rank=0&layer=conv1&op=";
  const json points = Body(http_->Get(front + "forward"))["points"];
  ASSERT_FALSE(points.empty());
  EXPECT_GT(points[0]["time_us"], 0.0);
  EXPECT_FALSE(points[0]["micro_batches"].empty());
  EXPECT_EQ(http_->Get(front + "backward_data")->status, 404);
  EXPECT_EQ(http_->Get(front + "forward&color=red")->status, 400);
  EXPECT_EQ(http_->Get("/v1/jobs/none/ranks/0")->status, 404);
  EXPECT_EQ(http_->Get("/v1/jobs/none/ranks/x")->status, 400);
}

TEST_F(RestTest, AnswersBadRequestsWithTheirPlaceAndWhatIsAccepted) {
  const auto expect = [](const httplib::Result& result, int status,
                         const std::string& code, const std::string& why) {
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, status) << result->body;
    EXPECT_EQ(result->get_header_value("Content-Type"),
              "application/problem+json");
    EXPECT_EQ(Body(result)["status"], status);
    EXPECT_EQ(Body(result)["code"], code);
    EXPECT_THAT(Body(result)["detail"].get<std::string>(), HasSubstr(why));
  };
  expect(http_->Post("/v1/plans", "{", "application/json"), 400,
         "INVALID_ARGUMENT", "not JSON");
  expect(http_->Post("/v1/plans", R"({"batsch":4})", "application/json"), 400,
         "INVALID_ARGUMENT", "batsch: no such field");
  expect(http_->Post("/v1/plans", R"({"network":"x","batch":0})",
                     "application/json"),
         400, "INVALID_ARGUMENT", "batch is 0; 1 to");
  expect(http_->Post("/v1/plans",
                     R"({"network":"x","batch":1,"device_kinds":["k"]})",
                     "application/json"),
         404, "NOT_FOUND", "x");
  expect(http_->Post("/v1/plans", R"({"network":"x","batch":1})",
                     "application/json"),
         422, "FAILED_PRECONDITION", "no device is online");
  expect(http_->Put("/v1/networks/a%20b", kOneLayer, "text/csv"), 400,
         "INVALID_ARGUMENT", "'a b' is not a name");
  expect(http_->Put("/v1/networks/bad", "name,C\nx,1\n", "text/csv"), 400,
         "INVALID_ARGUMENT", "column");
  expect(http_->Get("/v1/networks/none"), 404, "NOT_FOUND", "none");
  expect(http_->Get("/v1/jobs/none"), 404, "NOT_FOUND", "none");
  expect(http_->Get("/v1/plans/zero"), 400, "INVALID_ARGUMENT", "zero");
  expect(http_->Get("/v1/devices?limit=0"), 400, "INVALID_ARGUMENT", "limit");
  expect(http_->Get("/v1/devices?color=red"), 400, "INVALID_ARGUMENT", "color");
  expect(http_->Get("/v2"), 404, "NOT_FOUND", "/v2");
}

TEST_F(RestTest, ReportsItsStatus) {
  EXPECT_EQ(http_->Get("/livez")->status, 200);
  EXPECT_EQ(http_->Get("/readyz")->status, 200);
  http_->Get("/v1/networks/none");
  const auto metrics = http_->Get("/metrics");
  EXPECT_THAT(metrics->get_header_value("Content-Type"),
              HasSubstr("application/openmetrics-text; version=1.0.0"));
  EXPECT_THAT(metrics->body, EndsWith("# EOF\n"));
  EXPECT_THAT(metrics->body, HasSubstr("# TYPE ucudnn_requests counter\n"));
  EXPECT_THAT(metrics->body, HasSubstr("ucudnn_tasks{state=\"pending\"} 0"));
  EXPECT_THAT(metrics->body, HasSubstr("code=\"NOT_FOUND\""));
}

}  // namespace
}  // namespace ucudnn::test
