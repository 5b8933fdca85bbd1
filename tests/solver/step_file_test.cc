#include "solver/step_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

TEST(StepFileTest, ReadsWhatWasMeasured) {
  const auto kinds = ParseStep(R"({"more": 1, "kinds": [
      {"device_kind": "K", "least": 1, "passes": 3, "fingerprint": "f",
       "steps": [{"batch": 2, "time_us": 2.5},
                 {"batch": 4, "time_us": 5, "peak_bytes": 9}]},
      {"device_kind": "L", "steps": [{"batch": 1, "time_us": 1}]}]})");
  ASSERT_TRUE(kinds) << kinds.error().message;
  const StepKind& kind = kinds->at(0);
  EXPECT_EQ(kind.name, "K");
  EXPECT_EQ(kind.fingerprint, "f");
  EXPECT_EQ(kind.least, BatchSize(1));
  EXPECT_EQ(kind.passes, 3);
  EXPECT_EQ(kind.memory, Bytes::Max());
  EXPECT_EQ(kind.steps.at(0).time, Nanoseconds(2500));
  EXPECT_EQ(kind.steps.at(1).peak, Bytes(9));
  EXPECT_EQ(kinds->at(1).passes, 0);
}

TEST(StepFileTest, NamesWhatIsWrong) {
  const auto error_of = [](const std::string& content) {
    const auto kinds = ParseStep(content);
    return kinds ? "none" : kinds.error().message;
  };
  const auto kind = [](const std::string& steps) {
    return R"({"kinds": [{"device_kind": "K", "steps": [)" + steps + "]}]}";
  };
  EXPECT_EQ(error_of(kind(R"({"batch": 1, "time_us": 2.5})")), "none");
  EXPECT_THAT(error_of("{"), HasSubstr("line 1"));
  EXPECT_THAT(error_of("{}"), HasSubstr("kinds is missing"));
  EXPECT_THAT(error_of(R"({"kinds": []})"), HasSubstr("1 to 64 are accepted"));
  EXPECT_THAT(error_of(kind("")), HasSubstr("no step was measured"));
  EXPECT_THAT(error_of(kind(R"({"batch": 0, "time_us": 1})")),
              HasSubstr("kinds[0].steps[0].batch is 0"));
  EXPECT_THAT(error_of(kind(R"({"batch": 1})")),
              HasSubstr("kinds[0].steps[0].time_us is missing"));
  EXPECT_THAT(error_of(kind(R"({"batch": 1, "time_us": -1})")),
              HasSubstr("kinds[0].steps[0].time_us is -1"));
  EXPECT_THAT(error_of(kind(R"({"batch": 1, "time_us": 1, "recorded": {}})")),
              HasSubstr("kinds[0].steps[0].time_us is 1; nothing beside"));
  EXPECT_THAT(error_of(kind(R"({"batch": 1, "recorded": {}})")),
              HasSubstr("kinds[0].steps[0].recorded.segments is missing"));
  EXPECT_THAT(error_of(R"({"kinds": [{"device_kind": "K", "passes": 0,
      "steps": [{"batch": 1, "time_us": 1}]}]})"),
              HasSubstr("kinds[0].passes is 0"));
  EXPECT_THAT(error_of(R"({"kinds": [{"device_kind": "K", "fingerprint": ")" +
                       std::string(513, 'f') +
                       R"(", "steps": [{"batch": 1, "time_us": 1}]}]})"),
              HasSubstr("a text of up to 512 bytes"));
  EXPECT_THAT(error_of(R"({"kinds": [
      {"device_kind": "K", "steps": [{"batch": 1, "time_us": 1}]},
      {"device_kind": "K", "steps": [{"batch": 1, "time_us": 1}]}]})"),
              HasSubstr("kinds[1].device_kind is \"K\"; each kind once"));
}

}  // namespace
}  // namespace ucudnn
