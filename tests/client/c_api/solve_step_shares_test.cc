// ucudnn_solve_step_shares: shares by whole steps from text to text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/client/c_api/solve_answer.h"
#include "ucudnn/solve.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using test::Answer;
using test::Taken;
using ::testing::HasSubstr;

// Two kinds, of which memory of the second ends at 3 images.
const std::string kSteps =
    R"({"kinds": [
  {"device_kind": "fast", "steps": [{"batch": 1, "time_us": 10},
                                    {"batch": 9, "time_us": 90}]},
  {"device_kind": "small", "passes": 2, "steps":
      [{"batch": 1, "time_us": 10, "peak_bytes": 100},
       {"batch": 3, "time_us": 30, "peak_bytes": 300}]}]})";

Answer Shares(const Json& changes, const std::string& step = kSteps) {
  Json request = {{"batch", 12}, {"device_kinds", {"fast", "small"}}};
  request.update(changes);
  char* answer = nullptr;
  const int status = ucudnn_solve_step_shares(step.data(), step.size(),
                                              request.dump().c_str(), &answer);
  return Taken(status, answer);
}

TEST(SolveStepSharesCApiTest, SharesByTimes) {
  const Answer answer = Shares(Json::object());
  ASSERT_EQ(answer.status, 0) << answer.text;
  EXPECT_EQ(Json::parse(answer.text), Json::parse(R"({
    "time_us": 60.0, "lower_bound_us": 60.0, "even_us": 60.0, "cut_off": false,
    "ranks": [{"batch": 6, "time_us": 60.0, "lower_bound_us": 60.0,
               "peak_bytes": 0, "passes": 1, "most": 9},
              {"batch": 6, "time_us": 60.0, "lower_bound_us": 60.0,
               "peak_bytes": 300, "passes": 2, "most": 6}]})"));
}

TEST(SolveStepSharesCApiTest, TellsWhatGivenSharesTake) {
  const Answer answer = Shares({{"shares", {8, 4}}});
  ASSERT_EQ(answer.status, 0) << answer.text;
  const Json told = Json::parse(answer.text);
  EXPECT_EQ(told["time_us"], 80.0);
  EXPECT_EQ(told["ranks"][1]["time_us"], 40.0);
}

TEST(SolveStepSharesCApiTest, KeepsToBudgets) {
  const Answer answer = Shares({{"batch", 9}, {"budget_bytes", {0, 100}}});
  ASSERT_EQ(answer.status, 0) << answer.text;
  const Json told = Json::parse(answer.text);
  EXPECT_EQ(told["ranks"][1]["batch"], 2);  // in two passes of one
  EXPECT_EQ(told["ranks"][1]["peak_bytes"], 100);
}

TEST(SolveStepSharesCApiTest, SaysWhatIsWrong) {
  EXPECT_THAT(Shares(Json::object(), "{}").text,
              HasSubstr("step: kinds is missing"));
  EXPECT_THAT(Shares({{"device_kinds", {"fast", "other"}}}).text,
              HasSubstr(R"(request.device_kinds[1] is "other"; one of the )"
                        "step's, fast, small, is accepted"));
  EXPECT_THAT(Shares({{"budget_bytes", {1}}}).text,
              HasSubstr("one for each of the 2 device_kinds is accepted"));
  EXPECT_THAT(Shares({{"shares", {13, -1}}}).text,
              HasSubstr("request.shares[0] is 13; a whole number"));
  const Answer large = Shares({{"batch", 16}});
  EXPECT_EQ(large.status, 9);
  EXPECT_THAT(large.text, HasSubstr("at most 15 is accepted"));
}

}  // namespace
}  // namespace ucudnn
