// ONNX files that `ucudnn` cannot use, because they are broken or not
// supported: every command that reads one reports a malformed request.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/base/onnx/models.h"
#include "tests/integration/cluster.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OnnxFileTest : public ::testing::Test {
 protected:
  OnnxFileTest() { cluster_.StartCoordinators(); }

  void ExpectRefused(const std::string& file, const std::string& reason) {
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{
             {"networks", "convert", file},
             {"networks", "put", "n", file},
             {"solve", "ws", "--network", file, "--batch", "256",
              "--workspace-limit", "64MiB", "--precision", "FP32", "--profile",
              test::DataPath("h200/alexnet_b256_pow2.csv")}}) {
      const Finished run = cluster_.Ucudnn(command);
      EXPECT_EQ(run.status, 2) << command[1] << ": " << run.err;
      EXPECT_THAT(run.out, IsEmpty()) << command[1];
      EXPECT_THAT(run.err, HasSubstr(file)) << command[1];
      EXPECT_THAT(run.err, HasSubstr(reason)) << command[1];
    }
  }

  std::string Write(const std::string& name, const std::string& contents) {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return folder_ / name;
  }

 private:
  TemporaryFolder folder_;
  Cluster cluster_;
};

TEST_F(OnnxFileTest, ExitsWith2IfAModelIsNotSupported) {
  ExpectRefused(
      Write("pads.onnx", ucudnn::testing::Model(
                             ucudnn::testing::Single(
                                 "N,8,14,14", "8,16,3,3",
                                 "ConvTranspose <pads = [0, 0, 1, 1]> (x, w)"))
                             .SerializeAsString()),
      "pads");
  ExpectRefused(
      Write("hyper.onnx", ucudnn::testing::Model(
                              ucudnn::testing::Single(
                                  "N,8,4,4,4,4", "16,8,3,3,3,3", "Conv (x, w)"))
                              .SerializeAsString()),
      "spatial dimensions");
}

TEST_F(OnnxFileTest, ExitsWith2IfAModelIsBroken) {
  const std::string whole = FileText(test::DataPath("onnx/alexnet.onnx"));
  ASSERT_GT(whole.size(), 100U);
  ExpectRefused(Write("cut.onnx", whole.substr(0, whole.size() / 2)), "ONNX");
  std::string other = whole;
  for (std::size_t i = 0; i < other.size(); i += 7) other[i] = '\x07';
  ExpectRefused(Write("other.onnx", other), "ONNX");
}

}  // namespace
}  // namespace ucudnn::test
