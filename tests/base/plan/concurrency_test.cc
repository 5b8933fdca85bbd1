#include "base/plan/concurrency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/plan/plan.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

using Random = std::mt19937_64;

// A random text over the kernels [first, last), which runs in a row or at once.
std::string Draw(Random& random, std::size_t first, std::size_t last,
                 bool in_a_row) {
  if (last - first == 1) return std::to_string(first);
  const std::size_t middle = first + 1 + random() % (last - first - 1);
  const bool next = random() % 3 == 0 ? in_a_row : !in_a_row;
  const std::string a = Draw(random, first, middle, next);
  const std::string b = Draw(random, middle, last, next);
  return in_a_row ? a + " " + b : "[" + a + " | " + b + "]";
}

TEST(ConcurrencyTextTest, IsReadBack) {
  for (const char* text : {"0", "0 1", "[0 | 1]", "0 [1 | 2 3] 4",
                           "[[0 | 1] 2 | 3] [4 | 5 | 6]", "2 [0 | 1]"}) {
    const auto leaves = static_cast<std::size_t>(
        std::count_if(text, text + std::char_traits<char>::length(text),
                      [](char c) { return c >= '0' && c <= '9'; }));
    const auto read = ParseConcurrency(text, leaves);
    ASSERT_TRUE(read) << text << ": " << read.error().message;
    EXPECT_EQ(ToString(*read), text);
  }
  EXPECT_EQ(ToString(Chain(3)), "0 1 2");
  EXPECT_EQ(ToString(AllConcurrent(3)), "[0 | 1 | 2]");
  EXPECT_EQ(ConcurrentPairs(ParseConcurrency("0 [1 | 2 3] 4", 5).value()),
            (std::vector<std::pair<std::size_t, std::size_t>>{{1, 2}, {1, 3}}));
}

TEST(ConcurrencyTextTest, NamesThePlaceOfWhatIsWrong) {
  const auto refusal = [](const char* text) {
    const auto read = ParseConcurrency(text, 2);
    EXPECT_FALSE(read) << text;
    return read ? "" : read.error().message;
  };
  EXPECT_THAT(refusal("0 x"), HasSubstr("'x' at character 3"));
  EXPECT_THAT(refusal("[0 1]"), HasSubstr("']' at character 5"));
  EXPECT_THAT(refusal("[| 0]"), HasSubstr("'| 0]' at character 2"));
  for (const char* text : {"", " ", "[", "]", "|", "0 | 1", "[0 | 1", "0 | 1]",
                           "[0 |]", "[]", "-1 0", "99999999999999999999 0"}) {
    EXPECT_THAT(refusal(text), HasSubstr("are accepted")) << text;
  }
  for (const char* text : {"0", "0 1 2", "0 0", "0 2"}) {
    EXPECT_THAT(refusal(text), HasSubstr("structure")) << text;
  }
}

bool Overlap(const KernelPlan& a, const KernelPlan& b) {
  return std::max(*a.offset, *b.offset) <
         std::min(*a.offset + a.workspace, *b.offset + b.workspace);
}

// Compared with every pair of kernels.
TEST(CheckSegmentsTest, FindsWhetherAnyPairOverlaps) {
  Random random(7);
  int disjoint = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t kernels = 2 + random() % 6;
    const auto concurrency =
        ParseConcurrency(Draw(random, 0, kernels, i % 2 == 0), kernels);
    ASSERT_TRUE(concurrency);
    WorkspacePlan plan;
    for (std::size_t k = 0; k < kernels; ++k) {
      KernelPlan& kernel = plan.kernels.emplace_back();
      kernel.workspace = Bytes(static_cast<std::int64_t>(random() % 6));
      kernel.offset = Bytes(static_cast<std::int64_t>(random() % 20));
    }
    bool overlap = false;
    for (const auto& [a, b] : ConcurrentPairs(*concurrency)) {
      overlap = overlap || Overlap(plan.kernels[a], plan.kernels[b]);
    }
    ASSERT_EQ(CheckSegments(plan, *concurrency).has_value(), !overlap) << i;
    disjoint += overlap ? 0 : 1;
  }
  EXPECT_GT(disjoint, 4'000);
  EXPECT_LT(disjoint, 16'000);
}

WorkspacePlan TwoAtOnce() {
  WorkspacePlan plan;
  plan.batch = BatchSize(1);
  plan.total_workspace = 20_B;
  plan.concurrency = "[0 | 1]";
  for (std::int64_t k = 0; k < 2; ++k) {
    KernelPlan& kernel = plan.kernels.emplace_back();
    kernel.workspace = 10_B;
    kernel.offset = Bytes(10 * k);
    kernel.micro_batches = {{.batch = BatchSize(1),
                             .algorithm = {"GEMM", "", Precision::kFp32},
                             .workspace = 10_B}};
  }
  return plan;
}

TEST(CheckSegmentsTest, PlansWithOverlapsAreNotValid) {
  const auto refusal = [](auto change) {
    WorkspacePlan plan = TwoAtOnce();
    change(plan);
    const Status valid = Validate(plan);
    if (valid) return std::string();
    EXPECT_EQ(valid.error().code, Code::kInvalidArgument);
    return valid.error().message;
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_EQ(refusal([](auto& plan) { plan.kernels[0].offset = 9_B; }),
            "kernels[1].offset_bytes: its workspace overlaps that of "
            "kernels[0], and both may run at once; disjoint segments are "
            "accepted");
  EXPECT_THAT(refusal([](auto& plan) { plan.kernels[1].offset.reset(); }),
              HasSubstr("kernels[1].offset_bytes"));
  EXPECT_THAT(refusal([](auto& plan) { plan.kernels[1].offset = 11_B; }),
              HasSubstr("kernels[1].offset_bytes: its workspace ends at 21; "
                        "the plan's total_workspace_bytes, 20"));
  EXPECT_THAT(refusal([](auto& plan) { plan.concurrency = "[0 | 2]"; }),
              HasSubstr("concurrency: the structure"));
  EXPECT_EQ(refusal([](auto& plan) {
              plan.concurrency = "0 1";
              plan.kernels[1].offset = 0_B;
            }),
            "");
}

}  // namespace
}  // namespace ucudnn
