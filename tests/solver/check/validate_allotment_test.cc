#include "solver/check/validate_allotment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/solver/allot/allot_instances.h"

namespace ucudnn {
namespace {

using test::Line;
using ::testing::HasSubstr;

class ValidateAllotmentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    problem_.free = {2, 3};
    for (int j = 0; j < 2; ++j) {
      AllotJob& job = problem_.jobs.emplace_back();
      job.batch = BatchSize(12);
      job.tables = {Line(12, 3, 10), Line(12, 3, 20)};
    }
    const auto allotment = SolveAllotment(problem_);
    ASSERT_TRUE(allotment);
    allotment_ = *allotment;
  }

  std::string Fault() const {
    const Status valid = ValidateAllotment(allotment_, problem_);
    if (valid) return "none";
    EXPECT_EQ(valid.error().code, Code::kInternal);
    return valid.error().message;
  }

  AllotProblem problem_;
  Allotment allotment_;
};

TEST_F(ValidateAllotmentTest, AcceptsTheAnswer) { EXPECT_EQ(Fault(), "none"); }

TEST_F(ValidateAllotmentTest, FindsAMissingJob) {
  allotment_.jobs.pop_back();
  EXPECT_THAT(Fault(), HasSubstr("1 jobs, not 2"));
}

TEST_F(ValidateAllotmentTest, FindsADeviceWithoutShare) {
  ++allotment_.jobs[0].devices[0];
  EXPECT_THAT(Fault(), HasSubstr("not every device has one share"));
}

TEST_F(ValidateAllotmentTest, FindsTooManyDevicesOfAJob) {
  problem_.jobs[0].most = 1;
  EXPECT_THAT(Fault(), HasSubstr("devices, not 1 to 1"));
}

TEST_F(ValidateAllotmentTest, FindsDevicesThatAreNotFree) {
  problem_.free = {1, 3};
  EXPECT_NE(Fault(), "none");
}

TEST_F(ValidateAllotmentTest, FindsAShareThatWasNotMeasured) {
  ++allotment_.jobs[1].shares[0].time;
  EXPECT_THAT(Fault(), HasSubstr("is no row"));
}

TEST_F(ValidateAllotmentTest, FindsSharesThatDoNotSumToTheBatch) {
  problem_.jobs[0].batch = BatchSize(11);
  EXPECT_THAT(Fault(), HasSubstr("sum to 12, not to 11"));
}

TEST_F(ValidateAllotmentTest, FindsAWrongStep) {
  allotment_.jobs[0].step += Nanoseconds(1);
  EXPECT_THAT(Fault(), HasSubstr("the step takes"));
}

TEST_F(ValidateAllotmentTest, FindsASplitThatIsNotTheBest) {
  // All but one image on the first device.
  JobAllotment& job = allotment_.jobs[0];
  ASSERT_GE(job.shares.size(), 2U);
  const auto images = static_cast<std::int64_t>(12 - (job.shares.size() - 1));
  for (DeviceShare& share : job.shares) {
    const bool first = &share == &job.shares.front();
    share.batch = BatchSize(first ? images : 1);
    share.time =
        problem_.jobs[0].tables[share.kind][Index(share.batch) - 1].time;
  }
  job.step = job.shares.front().time;
  EXPECT_THAT(Fault(), HasSubstr("an assignment takes"));
}

TEST_F(ValidateAllotmentTest, FindsAWrongTimeAlone) {
  allotment_.jobs[0].alone -= Nanoseconds(1);
  EXPECT_THAT(Fault(), HasSubstr("alone it takes"));
}

TEST_F(ValidateAllotmentTest, FindsAWrongShare) {
  allotment_.jobs[0].share += 1000;
  EXPECT_THAT(Fault(), HasSubstr("a share of"));
}

TEST_F(ValidateAllotmentTest, FindsAWrongObjective) {
  allotment_.objective += 1000;
  EXPECT_THAT(Fault(), HasSubstr("the objective is"));
}

TEST_F(ValidateAllotmentTest, FindsABoundBelowTheObjective) {
  --allotment_.bound;
  EXPECT_THAT(Fault(), HasSubstr("a bound of"));
}

TEST_F(ValidateAllotmentTest, FindsAClaimOfOptimality) {
  ++allotment_.bound;
  EXPECT_THAT(Fault(), HasSubstr("a bound of"));
}

}  // namespace
}  // namespace ucudnn
