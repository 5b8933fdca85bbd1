// What a client can send to a coordinator to make it slow, large or dead. Every
// request is answered with an error within a second and 100 MB, and the
// coordinator serves on.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/limits.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/integration/cluster.h"
#include "ucudnn/v1/agent.grpc.pb.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn::test {
namespace {

using std::chrono::steady_clock;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kHeader[] =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n";

class HostileInputTest : public ::testing::Test {
 protected:
  HostileInputTest() {
    // The coordinator may hang up while a body is sent.
    std::signal(SIGPIPE, SIG_IGN);
    cluster_.StartCoordinators();
    channel_ = grpc::CreateChannel(cluster_.address(),
                                   grpc::InsecureChannelCredentials());
  }

  httplib::Client Http() const {
    httplib::Client http("127.0.0.1", cluster_.http_port());
    http.set_read_timeout(std::chrono::seconds(30));
    return http;
  }

  // Runs `request` and expects it to take so many seconds and 100 MB at most.
  void Bounded(const std::function<void()>& request, double seconds = 1.0) {
    const long before = cluster_.coordinator().PeakMemoryKb();
    const auto start = steady_clock::now();
    request();
    const std::chrono::duration<double> took = steady_clock::now() - start;
    EXPECT_LT(took.count(), seconds * kSlowness);
    EXPECT_LT(cluster_.coordinator().PeakMemoryKb() - before, 100'000);
    const auto alive = Http().Get("/livez");
    ASSERT_TRUE(alive) << cluster_.Log();
    EXPECT_EQ(alive->status, 200);
  }

  void Refused(const httplib::Result& answer, int status,
               const std::string& why) {
    ASSERT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->status, status) << answer->body.substr(0, 300);
    EXPECT_THAT(answer->body.substr(0, 1000), HasSubstr(why));
  }

  // Tests share their machine with others.
  static constexpr double kSlowness = 3;
  Cluster cluster_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(HostileInputTest, RefusesNestedJson) {
  Bounded([&] {
    const std::string nested =
        std::string(100'000, '[') + std::string(100'000, ']');
    Refused(Http().Post("/v1/plans", nested, "application/json"), 400,
            "nests more than 64");
    Refused(Http().Post("/v1/plans", R"({"batch":)" + nested + "}",
                        "application/json"),
            400, "nests more than 64");
  });
}

TEST_F(HostileInputTest, RefusesLongJson) {
  Bounded([&] {
    std::string values = "[{}";
    while (values.size() < 3'900'000) values += ",{}";
    Refused(Http().Post("/v1/plans", values + "]", "application/json"), 400,
            "more than 131072 values");
    Refused(
        Http().Post("/v1/plans", std::string(8 << 20, ' '), "application/json"),
        413, "larger than 4MiB");
  });
}

TEST_F(HostileInputTest, RefusesNetworksWithMoreLayersThanAnyHas) {
  Bounded([&] {
    std::string csv = kHeader;
    for (int i = 0; i < 500'000; ++i) {
      csv += "layer" + std::to_string(i) + ",1,1,1,1,1,1,0,0,1,1,1\n";
    }
    Refused(Http().Put("/v1/networks/deep", csv, "text/csv"), 400,
            "more than 10000 convolutions");
  });
}

TEST_F(HostileInputTest, EndsPagesOfLongEntriesEarly) {
  constexpr std::size_t kNetworks = 5;
  std::string csv = kHeader;
  for (int i = 0; i < 10'000; ++i) {
    csv += "layer" + std::to_string(i) + ",1,1,1,1,1,1,0,0,1,1,1\n";
  }
  for (std::size_t n = 0; n < kNetworks; ++n) {
    const std::string path =
        "/v1/networks/" + std::string(1, static_cast<char>('a' + n));
    ASSERT_EQ(Http().Put(path, csv, "text/csv")->status, 200);
  }
  std::vector<nlohmann::json> pages;
  std::string after;
  std::size_t listed = 0;
  while (listed < kNetworks) {
    std::string body;
    Bounded([&] {
      const auto page = Http().Get("/v1/networks?limit=1000&after=" + after);
      ASSERT_TRUE(page);
      body = page->body;
    });
    EXPECT_LT(body.size(), 3 * kMaxPageBytes);
    pages.push_back(nlohmann::json::parse(body)["networks"]);
    ASSERT_FALSE(pages.back().empty());
    listed += pages.back().size();
    after = pages.back().back()["name"];
  }
  EXPECT_GT(pages.size(), 1U);
}

TEST_F(HostileInputTest, RefusesLongTexts) {
  Bounded([&] {
    const auto stub = v1::CoordinatorService::NewStub(channel_);
    grpc::ClientContext context;
    v1::RegisterJobRequest request;
    request.set_job_id("j");
    request.set_name(std::string(30 << 20, 'n'));
    request.add_ranks();
    v1::RegisterJobResponse response;
    const grpc::Status status = stub->RegisterJob(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("up to 4096 are accepted"));
  });
}

TEST_F(HostileInputTest, RefusesHeartbeatsWithMoreLeasesThanAnAgentHolds) {
  Bounded([&] {
    const auto stub = v1::AgentService::NewStub(channel_);
    grpc::ClientContext context;
    v1::HeartbeatRequest request;
    request.set_agent_id("a");
    for (int i = 0; i < 1'000'000; ++i) request.add_leases()->set_task_id(i);
    v1::HeartbeatResponse response;
    const grpc::Status status = stub->Heartbeat(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(),
                HasSubstr("leases has 1000000 entries"));
  });
}

// Ranks with the same device and share have one plan, however many they are.
TEST_F(HostileInputTest, PlansForAsManyRanksAsForOne) {
  std::string csv = kHeader;
  for (int i = 1; i <= 160; ++i) {
    csv += "conv" + std::to_string(i) + ",3,8,8," + std::to_string(i) +
           ",3,3,1,1,1,1,1\n";
  }
  ASSERT_EQ(Http().Put("/v1/networks/deep", csv, "text/csv")->status, 200);
  const auto stub = v1::CoordinatorService::NewStub(channel_);
  {
    grpc::ClientContext context;
    v1::ProfileSummary stored;
    constexpr std::array<std::int64_t, 1> kBatches = {2};
    const grpc::Status put =
        stub->PutProfile(&context, Measured(kKind, 10, kBatches, csv), &stored);
    ASSERT_TRUE(put.ok()) << put.error_message();
  }
  constexpr int kRanks = 12'000;
  v1::PlanRequest request;
  request.set_network("deep");
  request.set_batch(2 * kRanks);
  request.set_workspace_limit_bytes(1 << 20);
  request.set_batch_policy("undivided");
  for (int r = 0; r < kRanks; ++r) request.add_device_kinds(kKind);
  v1::Plan plan;
  Bounded(
      [&] {
        grpc::ClientContext context;
        const grpc::Status made = stub->CreatePlan(&context, request, &plan);
        ASSERT_TRUE(made.ok()) << made.error_message();
      },
      5.0);
  ASSERT_EQ(plan.ranks_size(), kRanks);
  EXPECT_EQ(plan.ranks(0).workspace().kernels_size(), 2 + 159 * 3);
  EXPECT_EQ(plan.ranks(kRanks - 1).batch(), 2);
  EXPECT_EQ(plan.ranks(kRanks - 1).workspace_of_rank(), 0);
  EXPECT_LT(plan.ByteSizeLong(), 2'000'000U);
  Bounded(
      [&] {
        const auto read = Http().Get("/v1/plans/" + std::to_string(plan.id()));
        ASSERT_TRUE(read);
        EXPECT_EQ(read->status, 200);
        EXPECT_LT(read->body.size(), 10'000'000U);
      },
      5.0);
}

TEST_F(HostileInputTest, RefusesRanges) {
  Http().Put("/v1/networks/tiny",
             std::string(kHeader) + "conv1,3,8,8,8,3,3,1,1,1,1,1\n",
             "text/csv");
  std::string ranges = "bytes=0-";
  while (ranges.size() < 8'000) ranges += ",0-";
  Bounded([&] {
    const auto answer = Http().Get("/v1/networks/tiny", {{"Range", ranges}});
    Refused(answer, 400, "Range");
    EXPECT_LT(answer->body.size(), 1000U);
  });
}

TEST_F(HostileInputTest, ReadsBodiesOfTheDocumentedContentTypesOnly) {
  const std::string body =
      R"({"network":")" + std::string(20'000, 'x') + R"("})";
  Refused(Http().Post("/v1/plans", body, "application/json; charset=utf-8"),
          400, "20000 bytes long");
  // Among them what curl sends by default.
  for (const char* type : {"application/x-www-form-urlencoded", "", "x/y",
                           "text/plain", "multipart/form-data; boundary=x"}) {
    Refused(Http().Post("/v1/plans", body, type), 415,
            "application/json is accepted");
  }
}

// Each would take some 100 MB if it were parsed.
TEST_F(HostileInputTest, TakesLittleMemoryForManyLongBodies) {
  std::string body = R"({"network":"x","batch":1,"device_kinds":["k")";
  while (body.size() < kMaxJsonBytes - 10) body += R"(,"k")";
  body += "]}";
  const long before = cluster_.coordinator().MemoryKb();
  std::vector<std::jthread> clients;
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back([&] {
      const auto answer = Http().Post("/v1/plans", body, "application/json");
      if (!answer) return;
      EXPECT_THAT(answer->status, AnyOf(400, 404, 429, 503));
    });
  }
  clients.clear();
  EXPECT_LT(cluster_.coordinator().PeakMemoryKb(), 512 << 10);
  EXPECT_TRUE(WaitUntil(
      [&] { return cluster_.coordinator().MemoryKb() < before + (64 << 10); }));
}

TEST_F(HostileInputTest, NamesTheMethodsThatAPathAccepts) {
  const auto answer = Http().Patch("/v1/networks/tiny");
  Refused(answer, 405, "PATCH is not accepted here; GET or DELETE or PUT is");
  EXPECT_EQ(answer->get_header_value("Allow"), "GET, DELETE, PUT");
  Refused(Http().Get("/v1/measure"), 405, "POST is");
}

TEST_F(HostileInputTest, TakesNoFolderForAName) {
  for (const char* name : {".", ".."}) {
    Refused(
        Http().Put(std::string("/v1/networks/") + name, kHeader, "text/csv"),
        400, "is not a name");
  }
}

}  // namespace
}  // namespace ucudnn::test
