// The shim and the handle's library on a machine without a GPU and perhaps
// without cuDNN: they export the right names and change nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kPreload = test::LibraryPath("libucudnn_preload.so");
const std::string kHandle = test::LibraryPath("libucudnn_handle.so");

std::vector<std::string> DefinedNames(const std::string& library) {
  const auto run =
      test::Run({"nm", "-D", "--defined-only", "--format=posix", library});
  EXPECT_EQ(run.status, 0) << run.err;
  std::vector<std::string> names;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    names.push_back(line.substr(0, line.find(' ')));
  }
  return names;
}

TEST(PreloadTest, ExportsOnlyCudnnsNames) {
  const auto names = DefinedNames(kPreload);
  EXPECT_EQ(names.size(), 16U);
  for (const std::string& name : names) EXPECT_THAT(name, StartsWith("cudnn"));
}

TEST(PreloadTest, CarriesNoGrpcNoProtobufNoCurlAndNoOpenSsl) {
  for (const std::string& library : {kPreload, kHandle}) {
    const auto run = test::Run({"ldd", library});
    EXPECT_THAT(run.out, AllOf(Not(HasSubstr("grpc")), Not(HasSubstr("proto")),
                               Not(HasSubstr("mpi")), Not(HasSubstr("ssl")),
                               Not(HasSubstr("curl")), HasSubstr("libc.so")));
  }
}

TEST(HandleTest, ExportsOnlyTheOverloads) {
  auto names = DefinedNames(kHandle);
  // Inline members of the class, which unoptimised builds have.
  std::erase_if(names, [](const std::string& name) {
    return name.starts_with("_ZN14UcudnnHandle_t") ||
           name.starts_with("_ZNK14UcudnnHandle_t");
  });
  EXPECT_EQ(names.size(), 19U);
  for (const std::string& name : names) {
    EXPECT_THAT(name, HasSubstr("14UcudnnHandle_t"));
  }
}

TEST(PreloadTest, DoesNotChangeOtherPrograms) {
  const auto run =
      test::Run({"/bin/echo", "hello"}, {{"LD_PRELOAD", kPreload}});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out, "hello\n");
  EXPECT_EQ(run.err, "");
}

TEST(PreloadTest, RefusesWhatCudnnWouldRefuse) {
  EXPECT_EQ(test::Run({test::ProgramPath("cudnn_program")}).out, "missing\n");
  for (const char* disable : {"0", "1"}) {
    const auto run =
        test::Run({test::ProgramPath("cudnn_program")},
                  {{"LD_PRELOAD", kPreload}, {"UCUDNN_DISABLE", disable}});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "refused\n");
  }
}

// On a GPU simulated on the host (tests/support/fake_gpu).
void ExpectDivided(const std::string& program) {
  const test::TemporaryFolder folder;
  const std::string alone = test::Run({test::ProgramPath(program)}).out;
  EXPECT_THAT(alone, StartsWith("workspace 32000 status 0 runs 1 sum "));
  const std::string sum = alone.substr(alone.find(" sum "));
  std::map<std::string, std::string> environment = {
      {"LD_PRELOAD", kPreload},
      {"UCUDNN_CACHE_DIR", folder.path()},
      {"UCUDNN_WORKSPACE_LIMIT", "9000"},
      {"UCUDNN_VERBOSE", "1"}};
  const auto divided = test::Run({test::ProgramPath(program)}, environment);
  EXPECT_EQ(divided.out, "workspace 8000 status 0 runs 4" + sum);
  EXPECT_THAT(divided.err, AllOf(HasSubstr("batch 32: 4 × 8"),
                                 HasSubstr("predicted 980 us")));
  environment["UCUDNN_DISABLE"] = "1";
  const auto off = test::Run({test::ProgramPath(program)}, environment);
  EXPECT_EQ(off.out, alone);
  EXPECT_EQ(off.err, "");
}

TEST(PreloadTest, DividesTheBatchesOfAnUnmodifiedProgram) {
  ExpectDivided("shim_program");
}

// Whose symbols have a version, as NVIDIA's.
TEST(PreloadTest, DividesTheBatchesOfAProgramLinkedToCudnn8) {
  ExpectDivided("shim_program_8");
}

TEST(PreloadTest, MeasuresByItselfAndSaysWhyNobodyIsAsked) {
  const test::TemporaryFolder folder;
  // The loader refuses these in place of the system's.
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    std::ofstream(folder / name) << "no library";
  }
  const std::map<std::string, std::string> environment = {
      {"LD_PRELOAD", kPreload},
      {"UCUDNN_WORKSPACE_LIMIT", "9000"},
      {"UCUDNN_COORDINATOR", "127.0.0.1:7460"}};
  const auto says = [&](const std::string& variable, const std::string& value,
                        const std::string& why) {
    const test::TemporaryFolder cache;
    auto variables = environment;
    variables["UCUDNN_CACHE_DIR"] = cache.path();
    variables[variable] = value;
    const auto run = test::Run({test::ProgramPath("shim_program")}, variables);
    EXPECT_THAT(run.out, StartsWith("workspace 8000 status 0 runs 4 sum "));
    EXPECT_EQ(run.status, 0);
    EXPECT_THAT(run.err,
                AllOf(StartsWith("ucudnn: no coordinator "), HasSubstr(why),
                      EndsWith("; convolutions are measured here\n")));
    EXPECT_EQ(std::ranges::count(run.err, '\n'), 1);
  };
  says("UCUDNN_CA", "/none/ca.crt", "is asked: /none/ca.crt");
  says("LD_LIBRARY_PATH", folder.path(),
       "is asked: libcurl.so.4 or libcurl-gnutls.so.4 was not found");
  says("UCUDNN_COORDINATOR", "coord-1:9000", "coord-1:9000: that is a port");
}

TEST(PreloadTest, SaysOnceWhichFilesAreNotUsed) {
  const test::TemporaryFolder folder;
  std::map<std::string, std::string> environment = {
      {"LD_PRELOAD", kPreload},
      {"UCUDNN_CACHE_DIR", folder.path()},
      {"UCUDNN_WORKSPACE_LIMIT", "9000"},
      {"UCUDNN_PLAN_FILE", "/none/plan.json"}};
  const auto run = [&] {
    const auto ran =
        test::Run({test::ProgramPath("shim_program"), "again"}, environment);
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(std::ranges::count(ran.out, '\n'), 2) << ran.out;
    EXPECT_THAT(ran.out, HasSubstr("status 0"));
    return ran.err;
  };
  const std::string no_plan =
      "ucudnn: the plan file is not used: /none/plan.json: it cannot be "
      "opened: No such file or directory\n";
  EXPECT_EQ(run(), no_plan);
  // The network is named by the plan file too.
  environment["UCUDNN_TOTAL_WORKSPACE_SIZE"] = "100000";
  EXPECT_EQ(run(), no_plan);
  environment["UCUDNN_PLAN_FILE"] = "";
  environment["UCUDNN_NETWORK_FILE"] = "/none/network.csv";
  EXPECT_EQ(run(),
            "ucudnn: the network file is not used: /none/network.csv: it "
            "cannot be opened: No such file or directory\n");
  environment["UCUDNN_TOTAL_WORKSPACE_SIZE"] = "";
  EXPECT_EQ(run(),
            "ucudnn: UCUDNN_NETWORK_FILE is not used: it divides what "
            "UCUDNN_TOTAL_WORKSPACE_SIZE gives, which is not set\n");
}

TEST(PreloadTest, TakesNoWorkspaceFromAProgramThatNamesNoLimit) {
  const test::TemporaryFolder folder;
  const std::map<std::string, std::string> environment = {
      {"FAKE_GPU_WORKSPACE", "4194304"}, {"UCUDNN_CACHE_DIR", folder.path()}};
  const std::string alone =
      test::Run({test::ProgramPath("shim_program")}, environment).out;
  EXPECT_THAT(alone, StartsWith("workspace 134217728 status 0 runs 1 sum "));
  auto preloaded = environment;
  preloaded["LD_PRELOAD"] = kPreload;
  preloaded["UCUDNN_VERBOSE"] = "1";
  const auto run = test::Run({test::ProgramPath("shim_program")}, preloaded);
  EXPECT_EQ(run.out, alone);
  EXPECT_THAT(run.err, HasSubstr("left to cuDNN: IMPLICIT_PRECOMP_GEMM FMA"));
}

TEST(PreloadTest, NamesTheVariableThatIsMalformed) {
  const std::string alone =
      test::Run({test::ProgramPath("shim_program")}, {}).out;
  const auto run = test::Run(
      {test::ProgramPath("shim_program")},
      {{"LD_PRELOAD", kPreload}, {"UCUDNN_WORKSPACE_LIMIT", "plenty"}});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("UCUDNN_WORKSPACE_LIMIT"), HasSubstr("plenty")));
  EXPECT_EQ(run.out, alone);
}

}  // namespace
}  // namespace ucudnn
