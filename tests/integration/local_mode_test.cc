// The planner of the drop-in handle and the shim with a real coordinator: it
// uses the coordinator's measurements, and plans alone if the coordinator is
// unavailable.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "base/network.h"
#include "client/dropin/ask/ask_coordinator.h"
#include "client/dropin/planner/planner.h"
#include "device/forwarding_device.h"
#include "device/onednn/onednn_device.h"
#include "tests/integration/cluster.h"
#include "tests/support/certificates.h"

namespace ucudnn::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTwoLayers =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,12,12,8,3,3,1,1,1,1,1\n"
    "conv2,8,12,12,8,3,3,1,1,1,1,1\n";

std::unique_ptr<Device> OneThread() {
  auto device = OpenOneDnnDevice({.threads = 1});
  UCUDNN_CHECK(device.has_value());
  return *std::move(device);
}

// A device that counts its timings.
class Stopwatch final : public ForwardingDevice {
 public:
  explicit Stopwatch(std::unique_ptr<Device> device = OneThread())
      : ForwardingDevice(*device), owned_(std::move(device)) {}
  int timed() const { return timed_; }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    ++timed_;
    return device_.Time(work);
  }

 private:
  std::unique_ptr<Device> owned_;
  int timed_ = 0;
};

class LocalModeTest : public ::testing::Test {
 protected:
  LocalModeTest() {
    cluster_.StartCoordinators();
    const auto network = ParseNetworkCsv(kTwoLayers, "tiny", "tiny");
    UCUDNN_CHECK(network.has_value());
    kernels_ = KernelsOf(*network, Precision::kFp32, Layout::kNchw);
  }

  // Makes the cluster measure the network.
  void Measure() {
    cluster_.StartAgent();
    std::ofstream(cluster_.folder() / "tiny.csv") << kTwoLayers;
    ASSERT_EQ(
        cluster_
            .Ucudnn({"networks", "put", "tiny", cluster_.folder() / "tiny.csv"})
            .status,
        0);
    const auto plan = cluster_.Ucudnn({"plan", "--network", "tiny", "--batch",
                                       "4", "--workspace-limit", "1MiB"});
    ASSERT_EQ(plan.status, 0) << plan.err;
  }

  // Plans each kernel as a new process would; returns the number of timings.
  int PlanAll(CoordinatorAsker& asker) {
    Stopwatch device;
    const std::string kind = ToString(device.info().kind);
    LocalSolver::Options options;
    options.kind = kind;
    options.settings.workspace_limit = 1_MiB;
    options.ask = [&](const ConvProblem& problem) {
      return asker.Ask(kind, problem);
    };
    LocalSolver planner(options);
    for (const Kernel& kernel : kernels_) {
      const auto plan =
          planner.Plan(kernel.problem, BatchSize(4), 1_MiB,
                       [&]() -> Result<Device*> { return &device; });
      EXPECT_TRUE(plan) << plan.error().message;
    }
    return device.timed();
  }

  // As a job asks.
  CoordinatorAsker Asker(
      std::chrono::milliseconds within = std::chrono::seconds(10)) {
    return AskerWith(Cluster::CredentialsOf(Role::kJob, "handle"), within);
  }
  CoordinatorAsker AskerWith(
      CredentialFiles credentials,
      std::chrono::milliseconds within = std::chrono::seconds(10)) {
    return CoordinatorAsker(
        cluster_.rest_addresses(),
        {.credentials = std::move(credentials),
         .within = within,
         .pause = std::chrono::milliseconds(0),
         .warn = [this](const std::string& text) { warning_ = text; }});
  }

  Cluster cluster_;
  std::vector<Kernel> kernels_;
  std::string warning_;
};

TEST_F(LocalModeTest, UsesTheCoordinatorsMeasurements) {
  CoordinatorAsker asker = Asker();
  const std::string kind = ToString(Stopwatch().info().kind);
  const auto before = asker.Ask(kind, kernels_[0].problem);
  ASSERT_TRUE(before) << before.error().message;
  EXPECT_TRUE(before->points.empty());
  Measure();
  const auto after = asker.Ask(kind, kernels_[0].problem);
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_FALSE(after->points.empty());
  EXPECT_TRUE(after->complete.contains(BatchSize(4)));
  EXPECT_EQ(PlanAll(asker), 0);
}

TEST_F(LocalModeTest, PlansByItselfWhenTheCoordinatorIsKilled) {
  CoordinatorAsker asker = Asker();
  EXPECT_TRUE(asker.Ask("none/1u/1GiB/none-1.0", kernels_[0].problem));
  cluster_.KillCoordinators();
  EXPECT_GT(PlanAll(asker), 0);
}

TEST_F(LocalModeTest, PlansByItselfWhenTheCoordinatorHangs) {
  cluster_.SignalCoordinators(SIGSTOP);
  CoordinatorAsker asker = Asker(std::chrono::milliseconds(100));
  EXPECT_GT(PlanAll(asker), 0);
  cluster_.SignalCoordinators(SIGCONT);
}

TEST_F(LocalModeTest, AsksWithAToken) {
  CoordinatorAsker asker =
      AskerWith(cluster_.TokenOf(Role::kViewer, "somebody"));
  EXPECT_TRUE(WaitUntil([&] {
    return asker.Ask("none/1u/1GiB/none-1.0", kernels_[0].problem).has_value();
  })) << warning_;
}

TEST_F(LocalModeTest, PlansByItselfWhenItIsNotLetIn) {
  if (!Cluster::tls()) GTEST_SKIP() << "everybody is let in";
  const Certificates others;
  CredentialFiles foreign = others.Issue(Role::kJob, "handle");
  CredentialFiles nobody = Cluster::CredentialsOf(Role::kJob, "handle");
  foreign.ca = nobody.ca;
  nobody.cert = "";
  nobody.key = "";
  const std::vector<std::pair<CredentialFiles, std::string>> refused = {
      {nobody, "a certificate (UCUDNN_CERT and UCUDNN_KEY) or a token"},
      {foreign,
       "as if the certificate in " + foreign.cert + " were not accepted"},
      {Cluster::CredentialsOf(Role::kAgent, "n"),
       "agent n may not call GetProblemProfile; job, viewer"},
      {others.ca(), "the coordinator's certificate is not accepted"},
      {{}, "https needs an authority's certificate (UCUDNN_CA)"}};
  for (const auto& [credentials, why] : refused) {
    CoordinatorAsker asker = AskerWith(credentials);
    EXPECT_FALSE(asker.Ask("none/1u/1GiB/none-1.0", kernels_[0].problem));
    EXPECT_THAT(warning_, HasSubstr(why));
    EXPECT_THAT(warning_, HasSubstr(cluster_.rest_addresses()[0]));
  }
  CoordinatorAsker asker = AskerWith(foreign);
  EXPECT_GT(PlanAll(asker), 0);
}

}  // namespace
}  // namespace ucudnn::test
