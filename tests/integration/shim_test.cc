// The preload shim and the handle with a real coordinator, in a program that
// was built without ucudnn or with the handle, on a GPU simulated on the host
// (tests/support/fake_gpu).

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/integration/cluster.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ResultOf;
using ::testing::StartsWith;

class ShimTest : public ::testing::TestWithParam<std::string> {
 protected:
  ShimTest() { cluster_.StartCoordinators(); }

  Finished RunProgram(const CredentialFiles& files) const {
    const TemporaryFolder cache;
    std::map<std::string, std::string> environment = {
        {"UCUDNN_CACHE_DIR", cache.path()},
        {"UCUDNN_WORKSPACE_LIMIT", "9000"},
        {"UCUDNN_COORDINATOR",
         fmt::format("{}", fmt::join(cluster_.rest_addresses(), ","))},
        {kCaVariable, files.ca},
        {kCertVariable, files.cert},
        {kKeyVariable, files.key}};
    if (GetParam() == "shim_program") {
      environment["LD_PRELOAD"] = LibraryPath("libucudnn_preload.so");
    }
    Finished run = test::Run({ProgramPath(GetParam())}, environment);
    // Whatever coordinators say, the program goes on, planned.
    EXPECT_THAT(run.out, StartsWith("workspace 8000 status 0 runs 4 sum "));
    EXPECT_EQ(run.status, 0);
    return run;
  }
  // One line of the reason.
  static auto Says(const std::string& reason) {
    return AllOf(StartsWith("ucudnn: no coordinator answers: "),
                 HasSubstr(reason),
                 EndsWith("; convolutions are measured here\n"),
                 ResultOf(
                     [](const std::string& text) {
                       return std::ranges::count(text, '\n');
                     },
                     1));
  }

  Cluster cluster_;
};

TEST_P(ShimTest, AsksAsAJob) {
  const Finished run = RunProgram(Cluster::CredentialsOf(Role::kJob, "j"));
  EXPECT_EQ(run.err, "");  // nothing to complain about
}

TEST_P(ShimTest, MeasuresByItselfAndSaysThatItIsRefused) {
  if (!Cluster::tls()) GTEST_SKIP() << "everybody is let in";
  const Finished run = RunProgram(Cluster::CredentialsOf(Role::kAgent, "n"));
  EXPECT_THAT(run.err, Says("agent n may not call GetProblemProfile"));
}

TEST_P(ShimTest, MeasuresByItselfOnceItsCertificateIsRevoked) {
  if (!Cluster::tls()) GTEST_SKIP() << "everybody is let in";
  const CredentialFiles job =
      Cluster::CredentialsOf(Role::kJob, "of-" + GetParam());
  EXPECT_EQ(RunProgram(job).err, "");
  Cluster::Revoke(job);
  Finished run;
  EXPECT_TRUE(WaitUntil([&] {
    run = RunProgram(job);
    return !run.err.empty();
  }));
  EXPECT_THAT(run.err, Says("the certificate of spiffe://test/job/of-" +
                            GetParam() + " is revoked"));
}

TEST_P(ShimTest, MeasuresByItselfOnceItsCertificateHasExpired) {
  if (!Cluster::tls()) GTEST_SKIP() << "everybody is let in";
  const CredentialFiles late = Cluster::CredentialsOf(
      Role::kJob, "late-" + GetParam(), std::chrono::seconds(-1));
  EXPECT_THAT(RunProgram(late).err,
              Says("the certificate in " + late.cert));
}

INSTANTIATE_TEST_SUITE_P(InAProgram, ShimTest,
                         ::testing::Values("shim_program", "handle_program"),
                         [](const auto& program) { return program.param; });

}  // namespace
}  // namespace ucudnn::test
