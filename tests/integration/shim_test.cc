// The preload shim with a real coordinator, in a program that was built without
// ucudnn, on a GPU simulated on the host (tests/support/fake_gpu).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/integration/cluster.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ShimTest : public ::testing::Test {
 protected:
  ShimTest() { cluster_.StartCoordinators(); }

  Finished RunProgram(const CredentialFiles& files) const {
    const TemporaryFolder cache;
    return test::Run({ProgramPath("shim_program")},
                     {{"LD_PRELOAD", LibraryPath("libucudnn_preload.so")},
                      {"UCUDNN_CACHE_DIR", cache.path()},
                      {"UCUDNN_WORKSPACE_LIMIT", "9000"},
                      {"UCUDNN_COORDINATOR", cluster_.address()},
                      {kCaVariable, files.ca},
                      {kCertVariable, files.cert},
                      {kKeyVariable, files.key}});
  }

  Cluster cluster_;
};

TEST_F(ShimTest, AsksAsAJob) {
  const Finished run = RunProgram(Cluster::CredentialsOf(Role::kJob, "j"));
  EXPECT_THAT(run.out, StartsWith("workspace 8000 status 0 runs 4 sum "));
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");  // nothing to complain about
}

TEST_F(ShimTest, MeasuresByItselfAndSaysThatItIsRefused) {
  if (!Cluster::tls()) GTEST_SKIP() << "everybody is let in";
  const Finished run = RunProgram(Cluster::CredentialsOf(Role::kAgent, "n"));
  EXPECT_THAT(run.out, StartsWith("workspace 8000 status 0 runs 4 sum "));
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(
      run.err,
      AllOf(StartsWith("ucudnn: no coordinator answers: " + cluster_.address()),
            HasSubstr("agent n may not call GetProblemProfile"),
            EndsWith("; convolutions are measured here\n")));
  EXPECT_EQ(std::ranges::count(run.err, '\n'), 1);
}

}  // namespace
}  // namespace ucudnn::test
