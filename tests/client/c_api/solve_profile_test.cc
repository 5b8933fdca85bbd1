// Profiles that are parsed once, and WS, from text to text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/c_api/solve_answer.h"
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

const std::string kCsv =
    test::FileText(test::DataPath("h200/alexnet_b256_pow2.csv"));
const std::string kModel = test::FileText(test::DataPath("onnx/alexnet.onnx"));

using Opened = std::unique_ptr<ucudnn_solve_profile,
                               decltype(&ucudnn_solve_profile_close)>;

Opened Open(const std::string& csv) {
  ucudnn_solve_profile* opened = nullptr;
  char* error = nullptr;
  const int status =
      ucudnn_solve_profile_open(csv.data(), csv.size(), &opened, &error);
  EXPECT_EQ(status, 0) << error;
  EXPECT_EQ(error, nullptr);
  return {opened, &ucudnn_solve_profile_close};
}

std::string ProfileRequest(const Json& changes = Json::object()) {
  Json request = {{"batch", 256},
                  {"workspace_limit_bytes", 64 << 20},
                  {"batch_policy", "powerOfTwo"},
                  {"precision", "FP32"}};
  request.update(changes);
  return request.dump();
}

using FromProfile = int (*)(const ucudnn_solve_profile*, const char*, char**);

struct Solver {
  FromProfile solve;
  const char* field;  // of its answer
};

const Solver kSolvers[] = {
    {ucudnn_solve_profile_wr, "kernels"},
    {ucudnn_solve_profile_wd, "kernels"},
    {ucudnn_solve_profile_pareto, "front"},
    {ucudnn_solve_profile_times, "times"},
};

Answer Ask(FromProfile solve, const ucudnn_solve_profile* profile,
           const std::string& request) {
  char* answer = nullptr;
  const int status = solve(profile, request.c_str(), &answer);
  return Taken(status, answer);
}

Answer AskForArena(const ucudnn_solve_profile* profile,
                   const std::string& model, const std::string& request) {
  char* answer = nullptr;
  const int status = ucudnn_solve_profile_ws(
      profile, model.data(), model.size(), request.c_str(), &answer);
  return Taken(status, answer);
}

TEST(SolveProfileCApiTest, AnswersManyQuestionsFromOneProfile) {
  const Opened profile = Open(kCsv);
  const std::string request =
      ProfileRequest({{"layer", "conv2"}, {"op", "forward"}});
  for (const Solver& solver : kSolvers) {
    const Answer answer = Ask(solver.solve, profile.get(), request);
    ASSERT_EQ(answer.status, 0) << answer.text;
    EXPECT_GE(Json::parse(answer.text)[solver.field].size(), 1U);
    EXPECT_EQ(Ask(solver.solve, profile.get(), request), answer);
  }
}

TEST(SolveProfileCApiTest, IsSharedByThreads) {
  const Opened profile = Open(kCsv);
  std::vector<Answer> answers(4);
  std::vector<std::thread> threads;
  for (Answer& answer : answers) {
    threads.emplace_back([&answer, &profile] {
      answer = Ask(ucudnn_solve_profile_wr, profile.get(), ProfileRequest());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.status, 0);
    EXPECT_EQ(answer, answers[0]);
  }
}

TEST(SolveProfileCApiTest, SaysWhatIsWrongWithTheProfileOrTheRequest) {
  ucudnn_solve_profile* opened = nullptr;
  char* error = nullptr;
  const std::string bad = "device,network\n";
  const int status =
      ucudnn_solve_profile_open(bad.data(), bad.size(), &opened, &error);
  EXPECT_EQ(opened, nullptr);
  const Answer refused = Taken(status, error);
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.text, HasSubstr("profile: there is no column 'layer'"));
  EXPECT_EQ(ucudnn_solve_profile_open(bad.data(), bad.size(), nullptr, &error),
            3);
  for (const Solver& solver : kSolvers) {
    EXPECT_EQ(Ask(solver.solve, nullptr, ProfileRequest()).status, 3);
  }
  EXPECT_EQ(AskForArena(nullptr, kModel, ProfileRequest()).status, 3);
  ucudnn_solve_profile_close(nullptr);

  const Opened profile = Open(kCsv);
  const Answer none = Ask(ucudnn_solve_profile_wr, profile.get(),
                          ProfileRequest({{"layer", "fc"}}));
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.text, AllOf(HasSubstr("profile: "), HasSubstr("conv5")));
}

TEST(SolveProfileCApiTest, SharesAnArenaByTheModel) {
  const Opened profile = Open(kCsv);
  const Answer arena = AskForArena(profile.get(), kModel, ProfileRequest());
  ASSERT_EQ(arena.status, 0) << arena.text;
  const Json plan = Json::parse(arena.text);
  const Json reuse = Json::parse(
      Ask(ucudnn_solve_profile_wr, profile.get(), ProfileRequest()).text);
  // The kernels of a chain never run at once.
  EXPECT_EQ(plan["total_time_us"], reuse["total_time_us"]);
  EXPECT_EQ(plan["kernels"][3]["offset_bytes"], 0);
  EXPECT_THAT(plan["notes"].dump(), HasSubstr("matched by their order"));

  const Answer other = AskForArena(
      profile.get(), test::FileText(test::DataPath("onnx/vgg16.onnx")),
      ProfileRequest({{"network_name", "vgg16"}}));
  EXPECT_EQ(other.status, 3);
  EXPECT_THAT(other.text,
              AllOf(HasSubstr("vgg16"), HasSubstr("13 convolutions")));
}

}  // namespace
}  // namespace ucudnn
