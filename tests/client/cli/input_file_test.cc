// Input files that `ucudnn` cannot read or parse: every command reports a
// malformed request, never a service that refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kProfile = test::DataPath("h200/alexnet_b256_pow2.csv");
const std::string kModel = test::DataPath("onnx/alexnet.onnx");

// A command that reads `file`.
std::vector<std::string> Command(const std::string& problem,
                                 const std::string& file) {
  std::vector<std::string> words = {test::ProgramPath("ucudnn")};
  const auto add = [&words](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (problem == "networks" || problem == "profiles") {
    // No server is called.
    add({problem});
    add(problem == "networks" ? std::vector<std::string>{"put", "n", file}
                              : std::vector<std::string>{"import", file});
    return words;
  }
  add({"solve", problem.substr(0, problem.find(' ')), "--batch", "256"});
  if (problem == "assign") {
    add({"--times", file});
    return words;
  }
  const bool network = problem == "ws network";
  add({"--profile", network ? kProfile : file, "--workspace-limit", "64MiB",
       "--precision", "FP32"});
  if (problem.rfind("ws", 0) == 0) add({"--network", network ? file : kModel});
  return words;
}

void ExpectRefused(const std::string& problem, const std::string& file) {
  const test::Finished run = test::Run(Command(problem, file));
  EXPECT_EQ(run.status, 2) << problem << " " << file << ": " << run.err;
  EXPECT_THAT(run.out, IsEmpty()) << problem;
  EXPECT_THAT(run.err, HasSubstr(file)) << problem;
}

const std::vector<std::string> kSolved = {"wr", "wd",         "pareto",
                                          "ws", "ws network", "assign"};

TEST(InputFileCliTest, ExitsWith2IfAFileIsMissingOrAFolder) {
  const test::TemporaryFolder folder;
  for (const std::string& problem : kSolved) {
    ExpectRefused(problem, folder / "missing.csv");
    ExpectRefused(problem, folder / "");
  }
  for (const std::string problem : {"networks", "profiles"}) {
    ExpectRefused(problem, folder / "missing.csv");
  }
}

TEST(InputFileCliTest, ExitsWith2IfAFileIsMalformed) {
  const test::TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> files = {
      {"empty", ""},
      {"zeros", std::string(100, '\0')},
      {"text", "this is no CSV\nat all\n"},
      {"header_alone",
       "device,network,layer,op,precision,layout,batch,algorithm,math,"
       "workspace_bytes,time_us,gpu\n"},
      {"broken.csv.gz", "\x1F\x8B\x08 no"},
      {"cut.csv.gz", std::string("\x1F\x8B\x08\0\0\0\0\0\0\3\1", 11)}};
  for (const auto& [name, contents] : files) {
    std::ofstream(folder / name, std::ios::binary) << contents;
    for (const std::string& problem : kSolved) {
      ExpectRefused(problem, folder / name);
    }
  }
  for (const std::string problem : {"networks", "profiles"}) {
    ExpectRefused(problem, folder / "broken.csv.gz");
  }
}

TEST(InputFileCliTest, ExitsWith2IfANetworkIsTooLong) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "n.csv") << "name,C,H,W\n";
  // A sparse file of zeros, which takes no disk space.
  std::filesystem::resize_file(folder / "n.csv", (60U << 20) + 1);
  ExpectRefused("networks", folder / "n.csv");
}

}  // namespace
}  // namespace ucudnn
