// ONNX files that `ucudnn` cannot use, because they are broken or not
// supported: every command that reads one reports a malformed request.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/onnx/models.h"
#include "tests/integration/cluster.h"
#include "tests/integration/http.h"
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

  // Of a network, as REST tells them.
  nlohmann::json Layers(const std::string& network) {
    const auto answer = HttpOf(cluster_).Get("/v1/networks/" + network);
    return nlohmann::json::parse(answer->body, nullptr, false)["layers"];
  }

  std::string Write(const std::string& name, const std::string& contents) {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return folder_ / name;
  }

  Cluster cluster_;

 private:
  TemporaryFolder folder_;
};

TEST_F(OnnxFileTest, ExitsWith2IfAModelIsNotSupported) {
  ExpectRefused(
      Write("pads.onnx", ucudnn::test::OnnxModel(
                             ucudnn::test::SingleNode(
                                 "N,8,14,14", "8,16,3,3",
                                 "ConvTranspose <pads = [0, 0, -1, 1]> (x, w)"))
                             .SerializeAsString()),
      "padding height is -1");
  ExpectRefused(
      Write("hyper.onnx", ucudnn::test::OnnxModel(
                              ucudnn::test::SingleNode(
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

TEST_F(OnnxFileTest, IsRegisteredWithTheSizesThatItLeavesOpen) {
  const std::string model =
      ucudnn::test::OnnxModel(
          "g (float[N,3,H,W] image, float[8,3,3,3] w) => (float y) {"
          "y = Conv(image, w) }")
          .SerializeAsString();
  const std::string file = Write("open.onnx", model);
  const auto put = [&](const std::string& shape) {
    return cluster_.Ucudnn(
        {"networks", "put", "command", file, "--input-shape", shape});
  };
  EXPECT_EQ(put("image=3,32,64").status, 0);
  ASSERT_EQ(Layers("command").size(), 1U);
  EXPECT_EQ(Layers("command")[0]["input"], nlohmann::json({32, 64}));
  const Finished wrong = put("depth=3,32,64");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("no input 'depth'"));

  const auto over_rest = [&](const std::string& query) {
    return HttpOf(cluster_).Put("/v1/networks/rest" + query, model,
                                "application/octet-stream");
  };
  EXPECT_EQ(over_rest("?input_shape=image%3D3,32,64")->status, 200);
  EXPECT_EQ(Layers("rest"), Layers("command"));
  for (const auto& [query, reason] :
       std::vector<std::pair<std::string, std::string>>{
           {"", "dimension 'H'"},
           {"?input_shape=3x32", "3,224,224"},
           {"?input_shape=3,32", "4 dimensions"},
           {"?shape=3,32,64", "input_shape is accepted"}}) {
    const auto refused = over_rest(query);
    EXPECT_EQ(refused->status, 400) << query;
    EXPECT_THAT(refused->body, HasSubstr(reason)) << query;
  }
  std::string many = "?";
  for (int i = 1; i <= 65; ++i) many += fmt::format("&input_shape={}", i);
  EXPECT_THAT(over_rest(many)->body, HasSubstr("up to 64 are accepted"));
}

}  // namespace
}  // namespace ucudnn::test
