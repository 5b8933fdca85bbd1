// ucudnn_solve_joint_memory: shares of a mini-batch from text to text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client/c_api/solve_answer.h"
#include "tests/client/cli/solve/solve_command.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "ucudnn/solve.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using test::Answer;
using test::Taken;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kChain =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "a,3,64,64,16,3,3,1,1,1,1,1\n"
    "b,16,64,64,16,3,3,1,1,1,1,1\n";

Answer SolveJoint(const Json& request) {
  char* answer = nullptr;
  const int status = ucudnn_solve_joint_memory(kChain.data(), kChain.size(),
                                               request.dump().c_str(), &answer);
  return Taken(status, answer);
}

// A request for two unlike GPUs, with `changes`.
Json ChainRequest(const Json& changes = Json::object()) {
  Json request = {{"batch", 32},
                  {"step", 4},
                  {"network_name", "chain"},
                  {"gpus",
                   {{{"name", "K40=8MB"},
                     {"device_model", "K40"},
                     {"budget_bytes", 8'000'000}},
                    {{"device_model", "V100"}}}}};
  request.update(changes);
  return request;
}

TEST(SolveJointMemoryCApiTest, AnswersAsTheCommandDoes) {
  const Answer answer = SolveJoint(ChainRequest());
  ASSERT_EQ(answer.status, 0) << answer.text;
  test::TemporaryFolder folder;
  std::ofstream(folder / "chain.csv") << kChain;
  const nlohmann::json printed =
      SolveJson("joint", {"--network", folder / "chain.csv", "--batch", "32",
                          "--step", "4", "--gpu", "K40=8MB", "--gpu", "V100"});
  EXPECT_EQ(nlohmann::json::parse(answer.text), printed);
}

TEST(SolveJointMemoryCApiTest, AProfileIsOfItsGpuAlone) {
  const std::string header =
      "device,network,layer,op,precision,layout,batch,algorithm,math,"
      "workspace_bytes,time_us\n";
  std::string profile = header;
  for (const char* layer : {"a", "b"}) {
    for (const char* op : {"forward", "backward_data", "backward_filter"}) {
      for (int batch = 4; batch <= 32; batch += 4) {
        profile += std::string("slow,chain,") + layer + "," + op +
                   ",FP32,NCHW," + std::to_string(batch) + ",GEMM,DEFAULT,0," +
                   std::to_string(batch * 1'000'000) + "\n";
      }
    }
  }
  Json request = ChainRequest();
  request["gpus"][0]["profile"] = profile;
  const Answer answer = SolveJoint(request);
  ASSERT_EQ(answer.status, 0) << answer.text;
  EXPECT_EQ(Json::parse(answer.text)["gpus"][0]["batch"], 0);
}

TEST(SolveJointMemoryCApiTest, NamesWhatIsWrongAndWhatIsAccepted) {
  struct Case {
    Json changes;
    std::string named;
    std::string accepted;
  };
  const Json gpu = {{"device_model", "K40"}};
  const std::vector<Case> cases = {
      {{{"gpus", 3}}, "request.gpus is 3", "an array"},
      {{{"gpus", {gpu, 1}}}, "request.gpus[1] is 1", "an object"},
      {{{"gpus", {{{"budget_bytes", 1}}}}},
       "request.gpus[0].",
       "device_model is missing"},
      {{{"gpus", {{{"device_model", "K41"}}}}},
       "request.gpus[0].device_model is \"K41\"",
       "V100"},
      {{{"gpus", {{{"model", "K40"}}}}},
       "request.gpus[0]: unknown field 'model'",
       "device_model"},
      {{{"gpus", Json::array()}}, "there is no GPU", ""},
      {{{"step", 0}}, "request.step is 0", "from 1 to"},
      {{{"policy", "all"}}, "request: policy: ", "best"},
  };
  for (const Case& wrong : cases) {
    const Answer answer = SolveJoint(ChainRequest(wrong.changes));
    EXPECT_EQ(answer.status, 3) << wrong.changes;
    EXPECT_THAT(answer.text,
                AllOf(HasSubstr(wrong.named), HasSubstr(wrong.accepted)));
  }
  Json request = ChainRequest();
  request.erase("gpus");
  EXPECT_THAT(SolveJoint(request).text, HasSubstr("gpus is missing"));
}

TEST(SolveJointMemoryCApiTest, StatusNineIfNoSharesAddUp) {
  const Answer answer = SolveJoint(ChainRequest({{"batch", 33}}));
  EXPECT_EQ(answer.status, 9) << answer.text;
}

}  // namespace
}  // namespace ucudnn
