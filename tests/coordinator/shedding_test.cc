// More calls than a coordinator takes on are refused at once, with a hint when
// to come again; nobody else waits for them.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/health.h"
#include "coordinator/limits.h"
#include "coordinator/metrics.h"
#include "coordinator/rest/page.h"
#include "coordinator/rest/server.h"
#include "coordinator/rpc/server.h"
#include "coordinator/store/sql_database.h"
#include "proto/status.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/support/process.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

// Keeps all who write to the database waiting while it exists.
class Writer {
 public:
  explicit Writer(const std::string& url) {
    std::promise<void> writes;
    thread_ = std::thread([this, url, &writes] {
      const auto database = OpenSqlite(url).value();
      const Status written = database->Run(TransactionMode::kWrite,
                                           [&](SqlTransaction&) -> Status {
                                             writes.set_value();
                                             end_.get_future().wait();
                                             return {};
                                           });
      EXPECT_TRUE(written);
    });
    writes.get_future().wait();
  }
  ~Writer() {
    end_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> end_;
  std::thread thread_;
};

struct Put {
  grpc::ClientContext context;
  v1::PutNetworkRequest request = test::PutTiny();
  v1::Network response;
  std::promise<grpc::Status> ended;
  std::future<grpc::Status> status = ended.get_future();
  bool Ended() const {
    return status.wait_for(std::chrono::seconds(0)) ==
           std::future_status::ready;
  }
};

class SheddingTest : public ::testing::Test {
 protected:
  ~SheddingTest() override {
    for (const Put& put : puts_) {
      if (put.status.valid()) put.status.wait();
    }
  }

  Put& StartPut() {
    Put& put = puts_.emplace_back();
    stub_->async()->PutNetwork(&put.context, &put.request, &put.response,
                               [ended = &put.ended](grpc::Status status) {
                                 ended->set_value(std::move(status));
                               });
    return put;
  }
  std::ptrdiff_t Ended() const {
    return std::ranges::count_if(puts_,
                                 [](const Put& put) { return put.Ended(); });
  }
  httplib::Client Http() const {
    return httplib::Client("127.0.0.1", rest_->port());
  }

  const test::TemporaryFolder folder_;
  const std::string url_ = "sqlite://" + (folder_ / "c.db");
  const std::unique_ptr<Store> store_ = OpenStore(url_).value();
  const SystemClock clock_{};
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
  Metrics metrics_;
  Dispatcher dispatcher_{coordinator_, metrics_};
  const Health health_{[] { return Status(); }, [](const Status&) {}};
  const std::unique_ptr<RestServer> rest_ =
      RestServer::Start("127.0.0.1:0", dispatcher_, health_, Page()).value();
  const std::unique_ptr<RpcServer> rpc_ =
      RpcServer::Start("127.0.0.1:0", dispatcher_).value();
  const std::unique_ptr<v1::CoordinatorService::Stub> stub_ =
      v1::CoordinatorService::NewStub(
          grpc::CreateChannel("127.0.0.1:" + std::to_string(rpc_->port()),
                              grpc::InsecureChannelCredentials()));
  std::list<Put> puts_;
};

TEST_F(SheddingTest, RefusesCallsOnTopOverGrpc) {
  constexpr std::ptrdiff_t kTooMany = 20;
  {
    const Writer writer(url_);
    for (std::size_t i = 0; i < kMaxLongCallsOfAHost + kTooMany; ++i) {
      StartPut();
    }
    ASSERT_TRUE(test::WaitUntil([&] { return Ended() == kTooMany; }));
    for (Put& put : puts_) {
      if (!put.Ended()) continue;
      EXPECT_EQ(put.status.get().error_code(),
                grpc::StatusCode::RESOURCE_EXHAUSTED);
      EXPECT_TRUE(
          put.context.GetServerTrailingMetadata().contains(kPushbackHeader));
    }
    // Calls of another sort are answered.
    grpc::ClientContext context;
    v1::StatusResponse response;
    EXPECT_TRUE(stub_->GetStatus(&context, {}, &response).ok());
  }
  for (Put& put : puts_) {
    if (!put.status.valid()) continue;
    EXPECT_TRUE(put.status.get().ok());
  }
}

TEST_F(SheddingTest, RefusesCallsOnTopOverRest) {
  constexpr int kTooMany = 8;
  std::atomic<int> refused = 0;
  std::atomic<int> served = 0;
  std::vector<std::jthread> clients;
  {
    const Writer writer(url_);
    for (std::size_t i = 0; i < kMaxLongCallsOfAHost + kTooMany; ++i) {
      clients.emplace_back([&] {
        httplib::Client http = Http();
        http.set_read_timeout(std::chrono::seconds(60));
        const auto put =
            http.Put("/v1/networks/tiny", test::kNetwork, "text/csv");
        ASSERT_TRUE(put);
        if (put->status == 200) ++served;
        if (put->status != 429) return;
        EXPECT_EQ(put->get_header_value("Retry-After"), "1");
        EXPECT_THAT(put->body, HasSubstr("RESOURCE_EXHAUSTED"));
        ++refused;
      });
    }
    EXPECT_TRUE(test::WaitUntil([&] { return refused == kTooMany; }));
    EXPECT_EQ(served, 0);
  }
  clients.clear();
  EXPECT_EQ(served, static_cast<int>(kMaxLongCallsOfAHost));
}

TEST_F(SheddingTest, ForgetsCallsThatAreCancelledWhileTheyWait) {
  const Writer writer(url_);
  for (std::size_t i = 0; i < kMaxLongCallsOfAHost; ++i) StartPut();
  // All places are taken once one more is refused; one that was not has taken
  // the place of one that came late.
  ASSERT_TRUE(test::WaitUntil([&] {
    Put& more = StartPut();
    more.status.wait_for(std::chrono::milliseconds(50));
    return more.Ended();
  }));
  const auto cancelled = [&] {
    const auto metrics = Http().Get("/metrics");
    return metrics &&
           metrics->body.find("code=\"CANCELLED\",method=\"PutNetwork\"") !=
               std::string::npos;
  };
  // Those that wait end while the database still keeps the others.
  for (Put& put : puts_) put.context.TryCancel();
  EXPECT_TRUE(test::WaitUntil(cancelled));
}

}  // namespace
}  // namespace ucudnn
