// ucudnn_solve_memory: memory plans from text to text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

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

Answer SolveMemory(const std::string& network, const Json& request,
                   const std::string* profile = nullptr) {
  char* answer = nullptr;
  const int status =
      ucudnn_solve_memory(network.data(), network.size(),
                          profile == nullptr ? nullptr : profile->data(),
                          profile == nullptr ? 0 : profile->size(),
                          request.dump().c_str(), &answer);
  return Taken(status, answer);
}

// A request for a plan of AlexNet, with `changes`.
Json AlexNetRequest(const Json& changes = Json::object()) {
  Json request = {{"batch", 256},
                  {"device_model", "K40"},
                  {"budget_bytes", 950'000'000},
                  {"policy", "vdnn-dyn"},
                  {"network_name", "alexnet"}};
  request.update(changes);
  return request;
}

const std::string kAlexNet = test::DataPath("onnx/alexnet.onnx");

TEST(SolveMemoryCApiTest, PlansForOneOfSeveralGpus) {
  const Answer answer =
      SolveMemory(test::FileText(kAlexNet),
                  AlexNetRequest({{"policy", "modnn"}, {"gpus", 4}}));
  ASSERT_EQ(answer.status, 0) << answer.text;
  const Json plan = Json::parse(answer.text);
  EXPECT_EQ(plan["gpus"], 4);
  EXPECT_EQ(plan["batch"], 64);
  EXPECT_NE(
      SolveMemory(test::FileText(kAlexNet), AlexNetRequest({{"gpus", 65}}))
          .status,
      0);
}

TEST(SolveMemoryCApiTest, AnswersAsTheCommandDoes) {
  const Answer answer = SolveMemory(
      test::FileText(kAlexNet),
      AlexNetRequest(
          {{"sub_batch", 128}, {"allocator", "static"}, {"fuse", "paper"}}));
  ASSERT_EQ(answer.status, 0) << answer.text;
  const Json plan = Json::parse(answer.text);
  EXPECT_EQ(plan["network"], "alexnet");
  EXPECT_EQ(plan["sub_batch"], 128);
  const nlohmann::json printed =
      SolveJson("memory", {"--network", kAlexNet, "--batch", "256",
                           "--device-model", "K40", "--budget", "950000000",
                           "--policy", "vdnn-dyn", "--sub-batch", "128",
                           "--allocator", "static", "--fuse", "paper"});
  EXPECT_EQ(nlohmann::json::parse(answer.text), printed);
  EXPECT_EQ(plan["resident"][0]["kind"], "weight");
  EXPECT_EQ(plan["rounds"][0]["events"][0]["kind"], "activation");
}

TEST(SolveMemoryCApiTest, TakesTimesFromAProfile) {
  const std::string profile =
      test::FileText(test::DataPath("h200/alexnet_b256_pow2.csv"));
  const std::string network =
      test::FileText(test::DataPath("networks/alexnet_torchvision.csv"));
  const Json request = AlexNetRequest(
      {{"device_model", "H200"}, {"profile_network", "alexnet"}});
  const Answer estimated = SolveMemory(network, request);
  const Answer measured = SolveMemory(network, request, &profile);
  ASSERT_EQ(estimated.status, 0) << estimated.text;
  ASSERT_EQ(measured.status, 0) << measured.text;
  EXPECT_NE(Json::parse(measured.text)["time_us"],
            Json::parse(estimated.text)["time_us"]);
  EXPECT_THAT(Json::parse(measured.text)["notes"].dump(),
              HasSubstr("accuracy not measured: 15 of 15 kernels"));
  EXPECT_FALSE(Json::parse(estimated.text).contains("notes"));
  const Answer other = SolveMemory(
      network, AlexNetRequest({{"profile_network", "vgg"}}), &profile);
  EXPECT_EQ(other.status, 3);
  EXPECT_THAT(other.text, AllOf(HasSubstr("profile: "), HasSubstr("'vgg'")));
}

TEST(SolveMemoryCApiTest, ComparesAllPolicies) {
  const Answer answer = SolveMemory(test::FileText(kAlexNet),
                                    AlexNetRequest({{"policy", "all"}}));
  ASSERT_EQ(answer.status, 0) << answer.text;
  const Json plans = Json::parse(answer.text)["plans"];
  ASSERT_GE(plans.size(), 7u);
  EXPECT_EQ(plans[0]["policy"], "baseline");
  EXPECT_EQ(plans[0]["feasible"], false);
  EXPECT_THAT(plans[0]["reason"].get<std::string>(), HasSubstr("would do"));
  EXPECT_EQ(plans.back()["feasible"], true);
}

TEST(SolveMemoryCApiTest, TakesADeviceModelOfTheCaller) {
  Json device = {{"name", "mine"},         {"memory_bytes", 2'000'000'000},
                 {"memory_gb_per_s", 170}, {"arithmetic_tflops", 2.6},
                 {"d2h_gb_per_s", 10},     {"h2d_gb_per_s", 10}};
  Json request = AlexNetRequest({{"device_model", device}});
  request.erase("budget_bytes");
  const Answer answer = SolveMemory(test::FileText(kAlexNet), request);
  ASSERT_EQ(answer.status, 0) << answer.text;
  EXPECT_EQ(Json::parse(answer.text)["budget_bytes"], 2'000'000'000);
  request["device_model"].erase("d2h_gb_per_s");
  const Answer refused = SolveMemory(test::FileText(kAlexNet), request);
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.text, AllOf(HasSubstr("request.device_model: "),
                                  HasSubstr("d2h_gb_per_s")));
}

TEST(SolveMemoryCApiTest, NamesABudgetThatWouldDo) {
  const Answer answer = SolveMemory(
      test::FileText(kAlexNet), AlexNetRequest({{"budget_bytes", 1 << 20}}));
  EXPECT_EQ(answer.status, 9);
  EXPECT_THAT(answer.text, HasSubstr("would do"));
  const std::int64_t least = ucudnn_solve_last_least();
  ASSERT_GT(least, 1 << 20);
  EXPECT_EQ(SolveMemory(test::FileText(kAlexNet),
                        AlexNetRequest({{"budget_bytes", least}}))
                .status,
            0);
  EXPECT_EQ(ucudnn_solve_last_least(), -1);
}

TEST(SolveMemoryCApiTest, NamesWhatIsWrongAndWhatIsAccepted) {
  struct Case {
    Json changes;
    std::string named;
    std::string accepted;
  };
  const std::vector<Case> cases = {
      {{{"batch", 0}}, "request.batch is 0", "from 1 to"},
      {{{"precision", "FP31"}}, "request.precision: 'FP31'", "TF32"},
      {{{"policy", "magic"}}, "request: policy: ", "'magic'; baseline"},
      {{{"device_model", "K41"}}, "request.device_model is \"K41\"", "K40"},
      {{{"device_model", 40}}, "request.device_model is 40", "or an object"},
      {{{"allocator", "own"}}, "request.allocator: 'own'", "\"static\""},
      {{{"fuse", "all"}}, "request.fuse: 'all'", "\"none\" or \"paper\""},
      {{{"split", "2,2,2"}}, "request: split: depth '2'", "up to 1"},
      {{{"time_limit_s", -1}}, "request.time_limit_s is -1", "from 0.001 to"},
      {{{"sub_batch", 0}}, "request.sub_batch is 0", "from 1 to"},
      {{{"recompute", 1}}, "request.recompute is 1", "true or false"},
      {{{"bugdet", 1}}, "unknown field 'bugdet'", "budget_bytes"},
  };
  const std::string network = test::FileText(kAlexNet);
  for (const Case& wrong : cases) {
    const Answer answer = SolveMemory(network, AlexNetRequest(wrong.changes));
    EXPECT_EQ(answer.status, 3) << wrong.changes;
    EXPECT_THAT(answer.text,
                AllOf(HasSubstr(wrong.named), HasSubstr(wrong.accepted)));
  }
  EXPECT_THAT(SolveMemory("\x01", AlexNetRequest()).text,
              HasSubstr("network: its 1 bytes are not an ONNX model"));
  const std::string resnet =
      test::FileText(test::DataPath("networks/resnet18.csv"));
  EXPECT_THAT(SolveMemory(resnet, AlexNetRequest()).text,
              HasSubstr("network: row "));
  const std::string profile =
      test::FileText(test::DataPath("h200/alexnet_b256_pow2.csv"));
  EXPECT_THAT(
      SolveMemory(network, AlexNetRequest({{"split", "0.5,2,2"}}), &profile)
          .text,
      HasSubstr("be as many as its 14 convolutions (5 are measured)"));
}

TEST(SolveMemoryCApiTest, ChecksPlansWithTheirOwnGraphOrAGivenOne) {
  const auto check = [](const std::string& plan, const std::string* graph) {
    char* answer = nullptr;
    const int status = ucudnn_solve_check_memory_plan(
        plan.data(), plan.size(), graph == nullptr ? nullptr : graph->data(),
        graph == nullptr ? 0 : graph->size(), &answer);
    std::string text = answer == nullptr ? "" : answer;
    ucudnn_solve_free(answer);
    return Answer{status, std::move(text)};
  };
  const Answer solved = SolveMemory(test::FileText(kAlexNet), AlexNetRequest());
  ASSERT_EQ(solved.status, 0) << solved.text;
  const Answer checked = check(solved.text, nullptr);
  ASSERT_EQ(checked.status, 0) << checked.text;
  Json plan = Json::parse(solved.text);
  EXPECT_EQ(Json::parse(checked.text)["plans"][0]["time_us"], plan["time_us"]);
  const std::string graph = plan["graph"].dump();
  plan.erase("graph");
  EXPECT_EQ(check(plan.dump(), &graph).status, 0);
  EXPECT_THAT(check(plan.dump(), nullptr).text,
              HasSubstr("plan: graph is missing"));
  plan["peak_bytes"] = 1;
  const Answer broken = check(plan.dump(), &graph);
  EXPECT_EQ(broken.status, 3);
  EXPECT_THAT(broken.text, HasSubstr("plan: R23 plan: peak is 1, the events"));
  EXPECT_THAT(check("{", &graph).text, HasSubstr("plan: not JSON"));
}

TEST(SolveMemoryCApiTest, RefusesNullPointers) {
  char* answer = nullptr;
  EXPECT_EQ(ucudnn_solve_memory(nullptr, 0, nullptr, 0, "{}", &answer), 3);
  EXPECT_THAT(answer, HasSubstr("NULL"));
  ucudnn_solve_free(answer);
  EXPECT_EQ(ucudnn_solve_memory("", 0, nullptr, 0, "{}", nullptr), 3);
}

}  // namespace
}  // namespace ucudnn
