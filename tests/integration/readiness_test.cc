// A coordinator tells within a second whether it can store anything.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/mount.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include "tests/integration/cluster.h"
#include "tests/support/postgres.h"

namespace ucudnn::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

// The status of GET `path`, which must come within a second; 0 if none comes.
int Get(const Cluster& cluster, const std::string& path) {
  httplib::Client http("127.0.0.1", cluster.http_port());
  const auto start = steady_clock::now();
  const auto answer = http.Get(path);
  EXPECT_LT(steady_clock::now() - start, milliseconds(1'000)) << path;
  return answer ? answer->status : 0;
}

// Whether /readyz has answered `status` by a second from now, with some time
// for a loaded machine.
bool BecomesWithinASecond(const Cluster& cluster, int status) {
  const auto start = steady_clock::now();
  const bool became =
      WaitUntil([&] { return Get(cluster, "/readyz") == status; });
  EXPECT_LT(steady_clock::now() - start, milliseconds(1'500));
  EXPECT_EQ(Get(cluster, "/livez"), 200);
  return became;
}

// What gRPC's health service answers: 1 is serving, 2 not serving; 0 if it does
// not.
int Health(const Cluster& cluster) {
  grpc::GenericStub stub(grpc::CreateChannel(
      cluster.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(5));
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer response;
  std::promise<bool> answered;
  stub.UnaryCall(
      &context, "/grpc.health.v1.Health/Check", {}, &request, &response,
      [&](const grpc::Status& status) { answered.set_value(status.ok()); });
  grpc::Slice bytes;
  if (!answered.get_future().get() ||
      !response.DumpToSingleSlice(&bytes).ok() || bytes.size() != 2) {
    return 0;
  }
  return bytes.begin()[1];  // HealthCheckResponse.status, after its tag
}

class PostgresReadinessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = ThrowawayPostgres::Start(ThrowawayPostgres::Disk::kFast);
    ASSERT_TRUE(postgres) << postgres.error().message;
    postgres_ = *std::move(postgres);
    cluster_ = std::make_unique<Cluster>(postgres_->url());
    cluster_->StartCoordinators();
    ASSERT_TRUE(BecomesWithinASecond(*cluster_, 200));
  }

  std::unique_ptr<ThrowawayPostgres> postgres_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(PostgresReadinessTest, KnowsAFrozenDatabase) {
  postgres_->Freeze();
  EXPECT_TRUE(BecomesWithinASecond(*cluster_, 503));
  EXPECT_TRUE(WaitUntil([&] { return Health(*cluster_) == 2; }));
  EXPECT_THAT(cluster_->Log(), HasSubstr("event=not_ready"));
  postgres_->Thaw();
  EXPECT_TRUE(BecomesWithinASecond(*cluster_, 200));
  EXPECT_TRUE(WaitUntil([&] { return Health(*cluster_) == 1; }));
}

TEST_F(PostgresReadinessTest, TellsMetricsWithTheirAgeOfAFrozenDatabase) {
  // In seconds; -1 if /metrics does not answer.
  const auto age = [this] {
    const std::string name = "\nucudnn_status_age_seconds ";
    const auto answer =
        httplib::Client("127.0.0.1", cluster_->http_port()).Get("/metrics");
    if (!answer || answer->status != 200) return -1.0;
    EXPECT_THAT(answer->body, HasSubstr("\nucudnn_agents_online 0\n"));
    const std::size_t at = answer->body.find(name);
    if (at == std::string::npos) return -1.0;
    return std::stod(answer->body.substr(at + name.size()));
  };
  const auto is_fresh = [&] {
    const double seconds = age();
    return seconds >= 0 && seconds < 0.5;
  };
  EXPECT_TRUE(WaitUntil(is_fresh));
  postgres_->Freeze();
  const auto start = steady_clock::now();
  EXPECT_GE(age(), 1.0);
  EXPECT_LT(steady_clock::now() - start, milliseconds(5'000));
  postgres_->Thaw();
  EXPECT_TRUE(WaitUntil(is_fresh));
}

TEST_F(PostgresReadinessTest, KnowsAStoppedDatabase) {
  ASSERT_TRUE(postgres_->Kill());
  EXPECT_TRUE(BecomesWithinASecond(*cluster_, 503));
  ASSERT_TRUE(postgres_->Serve());
  EXPECT_TRUE(WaitUntil([&] { return Get(*cluster_, "/readyz") == 200; }));
}

TEST_F(PostgresReadinessTest, StopsThoughTheDatabaseIsFrozen) {
  postgres_->Freeze();
  ASSERT_TRUE(BecomesWithinASecond(*cluster_, 503));
  EXPECT_EQ(cluster_->StopCoordinators(std::chrono::seconds(10)), 0);
}

// A file system of a few MiB.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& folder) : folder_(folder) {
    mounted_ = mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=20m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  const std::string folder_;
  bool mounted_ = false;
};

TEST(SqliteReadinessTest, KnowsAFullDisk) {
  const TemporaryFolder folder;
  const SmallDisk disk(folder.path());
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount";
  Cluster cluster("sqlite://" + (folder / "c.db"));
  cluster.StartCoordinators();
  ASSERT_TRUE(BecomesWithinASecond(cluster, 200));
  std::ofstream(folder / "filler") << std::string(18 << 20, 'x');
  EXPECT_TRUE(BecomesWithinASecond(cluster, 503));
  EXPECT_TRUE(WaitUntil([&] {
    return cluster.Log().find("event=not_ready code=RESOURCE_EXHAUSTED") !=
           std::string::npos;
  }));
  std::filesystem::remove(folder / "filler");
  EXPECT_TRUE(BecomesWithinASecond(cluster, 200));
}

}  // namespace
}  // namespace ucudnn::test
