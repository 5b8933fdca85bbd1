// `ucudnn networks convert`: an ONNX model's convolutions as CSV.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/onnx/network_file.h"
#include "tests/base/onnx/models.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

test::Finished Convert(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {test::ProgramPath("ucudnn"), "networks", "convert"});
  return test::Run(arguments);
}

std::vector<std::string> Models() {
  std::vector<std::string> models;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::DataPath("onnx"))) {
    models.push_back(entry.path());
  }
  return models;
}

// The kernels of one training iteration, in order.
std::vector<std::string> KernelsIn(const Network& network) {
  std::vector<std::string> kernels;
  for (const Kernel& kernel :
       KernelsOf(network, Precision::kFp32, Layout::kNchw)) {
    kernels.push_back(fmt::format("{} {} {}", kernel.layer, Name(kernel.op),
                                  ToString(kernel.problem)));
  }
  return kernels;
}

TEST(NetworksCliTest, SayThatAModelIsEmpty) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "empty.onnx").flush();
  EXPECT_THAT(Convert({folder / "empty.onnx"}).err,
              HasSubstr("empty.onnx: it is empty; an ONNX model or CSV"));
}

TEST(NetworksCliTest, WriteTheKernelsOfAModelAsCsv) {
  const test::TemporaryFolder folder;
  const std::vector<std::string> models = Models();
  EXPECT_THAT(models, SizeIs(9));
  for (const std::string& model : models) {
    const auto from = ReadNetworkFile(model, BatchSize(4));
    ASSERT_TRUE(from) << from.error().message;
    const std::string csv = folder / "network.csv";
    const test::Finished written = Convert({model, csv});
    ASSERT_EQ(written.status, 0) << written.err;
    EXPECT_THAT(written.out, IsEmpty());
    const auto to = ReadNetworkFile(csv, BatchSize(4));
    ASSERT_TRUE(to) << to.error().message;
    EXPECT_EQ(to->layers, from->layers) << model;
    EXPECT_EQ(KernelsIn(*to), KernelsIn(*from)) << model;
    EXPECT_EQ(Convert({model}).out, test::FileText(csv)) << model;
    // CSV is passed through unchanged.
    EXPECT_EQ(Convert({csv, "-"}).out, test::FileText(csv)) << model;
  }
}

TEST(NetworksCliTest, TakeSizesThatAModelLeavesOpen) {
  const test::TemporaryFolder folder;
  const std::string model = folder / "open.onnx";
  std::ofstream(model, std::ios::binary)
      << test::OnnxModel(
             "g (float[N,3,H,W] image, float[8,3,3,3] w) => (float y) {"
             "y = Conv(image, w) }")
             .SerializeAsString();
  const test::Finished open = Convert({model});
  EXPECT_EQ(open.status, 2);
  EXPECT_THAT(open.err, HasSubstr("--input-shape"));
  for (const char* shape : {"3,32,64", "image=3,32,64"}) {
    const test::Finished sized = Convert({model, "--input-shape", shape});
    EXPECT_EQ(sized.status, 0) << sized.err;
    EXPECT_THAT(sized.out, HasSubstr("Conv_0,3,32,64,8,3,3"));
  }
  const test::Finished bad = Convert({model, "--input-shape", "32x64"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("3,224,224"));
  const test::Finished csv =
      Convert({test::DataPath("networks/vgg16.csv"), "--input-shape", "3,8,8"});
  EXPECT_EQ(csv.status, 2);
  EXPECT_THAT(csv.err, HasSubstr("ONNX models"));
}

TEST(NetworksCliTest, SayWhatCannotBeReadOrWritten) {
  const test::TemporaryFolder folder;
  const test::Finished none = Convert({folder / "none.onnx"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("none.onnx"));
  const test::Finished stuck =
      Convert({test::DataPath("onnx/alexnet.onnx"), "/dev/null/n.csv"});
  EXPECT_EQ(stuck.status, 1);
  EXPECT_THAT(stuck.err, HasSubstr("/dev/null"));
  EXPECT_EQ(Convert({}).status, 2);
}

}  // namespace
}  // namespace ucudnn
