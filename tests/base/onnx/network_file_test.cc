#include "base/onnx/network_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string NetworkFile(const std::string& name) {
  return test::DataPath(name);
}

TEST(NetworkFileTest, NamesTheNetworkAsTheFile) {
  const auto network =
      ReadNetworkFile(NetworkFile("networks/resnet50_v1_5.csv"), BatchSize(1));
  ASSERT_TRUE(network) << network.error().message;
  EXPECT_EQ(network->name, "resnet50_v1_5");
  EXPECT_THAT(network->layers, SizeIs(53));
}

TEST(NetworkFileTest, TellsFormsApartByContent) {
  EXPECT_THAT(
      ParseNetwork("a,b\n", "n", BatchSize(1), "x.onnx").error().message,
      HasSubstr("no column 'name'"));
  EXPECT_THAT(ParseNetwork("", "n", BatchSize(1), "x").error().message,
              HasSubstr("it is empty"));
  EXPECT_FALSE(ParseNetwork("\x08\x01\x02", "n", BatchSize(1), "x.csv"));
}

TEST(NetworkFileTest, SaysHowToSaveATableThatASpreadsheetWrote) {
  EXPECT_THAT(ParseNetwork(std::string_view("\xFF\xFEn\0a\0m\0e\0", 10), "n",
                           BatchSize(1), "x.csv")
                  .error()
                  .message,
              HasSubstr("UTF-16"));
}

TEST(NetworkFileTest, HasNoGraphForText) {
  EXPECT_THAT(
      ReadGraphFile(NetworkFile("networks/vgg16.csv"), BatchSize(1))
          .error()
          .message,
      AllOf(HasSubstr("vgg16.csv"), HasSubstr("ONNX model is expected")));
}

TEST(NetworkFileTest, NamesTheFileInErrors) {
  const auto network = ReadNetworkFile(NetworkFile("none.onnx"), BatchSize(1));
  EXPECT_EQ(network.error().code, Code::kNotFound);
  EXPECT_THAT(network.error().message, StartsWith(NetworkFile("none.onnx")));
}

#ifndef UCUDNN_WITH_ONNX
TEST(NetworkFileTest, SaysThatThisBuildReadsNoModels) {
  const auto network =
      ReadNetworkFile(NetworkFile("onnx/alexnet.onnx"), BatchSize(1));
  EXPECT_EQ(network.error().code, Code::kUnimplemented);
  EXPECT_THAT(network.error().message, HasSubstr("UCUDNN_WITH_ONNX=OFF"));
}
#endif

}  // namespace
}  // namespace ucudnn
