#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace ucudnn {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Fail(Code::kInvalidArgument, "{} is odd", n);
  return n / 2;
}

Result<int> Quarter(int n) {
  UCUDNN_ASSIGN_OR_RETURN(const int half, Half(n));
  UCUDNN_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status Check(int n) {
  UCUDNN_RETURN_IF_ERROR(Half(n));
  return {};
}

TEST(ResultTest, ReturnsTheFirstError) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(6).error(), (Error{Code::kInvalidArgument, "3 is odd"}));
  EXPECT_EQ(Quarter(5).error().message, "5 is odd");
  EXPECT_TRUE(Check(4));
  EXPECT_EQ(Check(3).error().message, "3 is odd");
}

TEST(ResultTest, MovesWhatCannotBeCopied) {
  const auto make = []() -> Result<std::unique_ptr<int>> {
    return std::make_unique<int>(7);
  };
  const auto use = [&]() -> Result<int> {
    UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<int> p, make());
    return *p;
  };
  EXPECT_EQ(use().value(), 7);
}

TEST(ResultTest, SaysWhereAnErrorHappened) {
  const Status status =
      Within("p.csv:3", Error{Code::kNotFound, "no such row"});
  EXPECT_EQ(status.error(), (Error{Code::kNotFound, "p.csv:3: no such row"}));
}

TEST(ResultTest, NumbersAndNamesCodesAsGrpcDoes) {
  EXPECT_EQ(CodeName(Code::kOk), "OK");
  EXPECT_EQ(CodeName(Code::kFailedPrecondition), "FAILED_PRECONDITION");
  EXPECT_EQ(static_cast<int>(Code::kFailedPrecondition), 9);
  EXPECT_EQ(CodeName(static_cast<Code>(99)), "UNKNOWN");
  for (int i = 0; i < 17; ++i) {
    EXPECT_EQ(CodeName(static_cast<Code>(i)) == "UNKNOWN", i == 2);
  }
}

TEST(ResultDeathTest, AbortsWhenAnInvariantIsBroken) {
  EXPECT_DEATH(UCUDNN_CHECK(1 + 1 == 3), "result_test.cc:.*1 \\+ 1 == 3");
}

}  // namespace
}  // namespace ucudnn
