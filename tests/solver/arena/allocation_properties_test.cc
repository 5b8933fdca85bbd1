// Allocate against brute force on all tiny instances, and on random ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "solver/arena/allocation.h"
#include "solver/arena/placement_search.h"
#include "solver/check/validate_allocation.h"
#include "tests/solver/instances.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using test::Draw;
using test::Random;

// Tries all placements in which every buffer rests on the bottom or on another:
// buffers in order of their offsets, each as low as its predecessors allow.
class AllPlacements {
 public:
  explicit AllPlacements(const std::vector<Buffer>& buffers)
      : buffers_(buffers), top_(buffers.size(), -1) {
    Extend(0, 0, 0);
  }
  std::int64_t smallest() const { return smallest_; }

 private:
  void Extend(std::size_t placed, std::int64_t last, std::int64_t pool) {
    if (placed == buffers_.size()) smallest_ = pool;
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      if (top_[b] >= 0) continue;
      std::int64_t offset = 0;
      for (std::size_t other = 0; other < buffers_.size(); ++other) {
        if (std::max(buffers_[b].begin, buffers_[other].begin) <
            std::min(buffers_[b].end, buffers_[other].end)) {
          offset = std::max(offset, top_[other]);
        }
      }
      const std::int64_t top = offset + buffers_[b].size.count();
      if (offset < last || std::max(pool, top) >= smallest_) continue;
      top_[b] = top;
      Extend(placed + 1, offset, std::max(pool, top));
      top_[b] = -1;
    }
  }

  const std::vector<Buffer>& buffers_;
  std::vector<std::int64_t> top_;  // -1 where not placed
  std::int64_t smallest_ = Bytes::Max().count();
};

void ExpectOptimal(const std::vector<Buffer>& buffers, std::int64_t smallest) {
  const auto allocation = Allocate(buffers, {}, {});
  ASSERT_TRUE(allocation) << allocation.error().message;
  const Status valid = ValidateAllocation(*allocation, buffers, {});
  ASSERT_TRUE(valid) << valid.error().message;
  ASSERT_TRUE(allocation->proven);
  ASSERT_EQ(allocation->pool.count(), smallest);
  if (smallest == 0) return;
  // The smallest pool fits as a capacity; one byte less does not.
  ASSERT_TRUE(
      Allocate(buffers, {.capacity = Bytes(smallest), .alignment = 1_B}, {}));
  if (smallest == 1) return;
  const auto less = Allocate(
      buffers, {.capacity = Bytes(smallest - 1), .alignment = 1_B}, {});
  ASSERT_FALSE(less);
  ASSERT_EQ(less.error().code, Code::kFailedPrecondition);
  ASSERT_THAT(less.error().message,
              ::testing::HasSubstr(fmt::format("would do is {}", smallest)));
}

TEST(AllocationPropertiesTest, IsOptimalOnAllInstancesOfThreeBuffers) {
  std::vector<Buffer> shapes;
  for (std::int64_t begin = 0; begin < 3; ++begin) {
    for (std::int64_t end = begin; end <= 3; ++end) {
      for (std::int64_t size = 1; size <= 3; ++size) {
        shapes.push_back({begin, end, Bytes(size)});
      }
    }
  }
  int instance = 0;
  for (const Buffer& a : shapes) {
    for (const Buffer& b : shapes) {
      for (const Buffer& c : shapes) {
        if (++instance % (kSlowed ? 10 : 1) != 0) continue;
        const std::vector<Buffer> buffers = {a, b, c};
        ExpectOptimal(buffers, AllPlacements(buffers).smallest());
      }
      if (HasFatalFailure()) return;
    }
  }
}

// Variants of vDNN, section 6.1, where the smallest pool exceeds the load: in
// other units and with perturbed sizes.
std::vector<Buffer> Nested(Random& random) {
  std::vector<Buffer> buffers = {
      {1, 2, 3_B}, {1, 3, 3_B}, {1, 4, 3_B}, {1, 5, 3_B}, {2, 3, 1_B},
      {2, 4, 1_B}, {2, 5, 1_B}, {3, 4, 2_B}, {3, 5, 2_B}, {4, 5, 6_B}};
  const std::int64_t unit = Draw(random, 2, 5);
  for (Buffer& buffer : buffers) {
    buffer.size = buffer.size * unit + Bytes(Draw(random, 0, 1));
  }
  return buffers;
}

std::vector<Buffer> Scattered(Random& random) {
  std::vector<Buffer> buffers;
  for (std::int64_t count = Draw(random, 3, 8); count > 0; --count) {
    const std::int64_t begin = Draw(random, 0, 6);
    buffers.push_back(
        {begin, Draw(random, begin + 1, begin + 4), Bytes(Draw(random, 1, 6))});
  }
  return buffers;
}

TEST(AllocationPropertiesTest, IsOptimalOnSmallRandomInstances) {
  Random random(12);
  int above_load = 0;
  for (int i = 0; i < Trials(100); ++i) {
    const std::vector<Buffer> buffers =
        i % 10 == 0 ? Nested(random) : Scattered(random);
    const std::int64_t smallest = AllPlacements(buffers).smallest();
    ExpectOptimal(buffers, smallest);
    if (HasFatalFailure()) return;
    above_load += smallest > Load(buffers).count() ? 1 : 0;
  }
  EXPECT_GE(above_load, kSlowed ? 0 : 2);
}

// Each rule of the search alone, without the greedy placement.
TEST(AllocationPropertiesTest, EveryRuleOfTheSearchDecidesCorrectly) {
  Random random(5);
  for (int i = 0; i < Trials(100); ++i) {
    const std::vector<Buffer> buffers =
        i % 10 == 0 ? Nested(random) : Scattered(random);
    std::vector<Block> blocks;
    for (const Buffer& buffer : buffers) {
      blocks.push_back({buffer.begin, buffer.end, buffer.size.count()});
    }
    const std::int64_t smallest = AllPlacements(buffers).smallest();
    for (const SectionRule sections :
         {SectionRule::kFewestChoices, SectionRule::kMostConflicts}) {
      for (const BlockRule rule : {BlockRule::kLongest, BlockRule::kMostCrowded,
                                   BlockRule::kCrowdedAndLong}) {
        for (const bool varied : {false, true}) {
          PlacementSearch search(blocks, varied);
          // Reuses one object for several capacities, as Allocate does.
          for (const std::int64_t less : {1, 0, 2, -1, 1}) {
            const Verdict verdict =
                search.Fit(smallest - less, sections, rule, 1'000'000, {});
            ASSERT_EQ(verdict,
                      less > 0 ? Verdict::kImpossible : Verdict::kFits);
            if (less <= 0) {
              ASSERT_LE(search.pool(), smallest - less);
            }
          }
        }
      }
    }
  }
}

std::vector<Buffer> AnyBuffers(std::int64_t most) {
  const auto count = *rc::gen::inRange<std::int64_t>(0, most);
  std::vector<Buffer> buffers;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto begin = *rc::gen::inRange<std::int64_t>(-40, 40);
    const auto length = *rc::gen::inRange<std::int64_t>(0, 20);
    const auto size = *rc::gen::inRange<std::int64_t>(0, 1000);
    buffers.push_back({begin, begin + length, Bytes(size)});
  }
  return buffers;
}

RC_GTEST_PROP(AllocationPropertiesTest, IsValidUnderAnyLimits, ()) {
  const std::vector<Buffer> buffers = AnyBuffers(60);
  AllocationOptions options;
  options.alignment = Bytes(*rc::gen::element(1, 3, 16, 256));
  Limits limits;
  limits.max_nodes = *rc::gen::element(0, 1, 50, 2000);
  const auto allocation = Allocate(buffers, options, limits);
  RC_ASSERT(allocation.has_value());
  const Status valid = ValidateAllocation(*allocation, buffers, options);
  if (!valid) RC_FAIL(valid.error().message);
  // The answer is the same each time and for every order of the buffers.
  RC_ASSERT(*Allocate(buffers, options, limits) == *allocation);
  // More steps never give a larger pool or a lower bound.
  limits.max_nodes *= 2;
  const auto longer = Allocate(buffers, options, limits);
  RC_ASSERT(longer->pool <= allocation->pool);
  RC_ASSERT(longer->lower_bound >= allocation->lower_bound);
  // The pool that was found is itself a sufficient capacity.
  if (allocation->pool > Bytes(0)) {
    options.capacity = allocation->pool;
    RC_ASSERT(Allocate(buffers, options, {.max_nodes = 20'000, .stop = {}})
                  .has_value() ||
              !allocation->proven);
  }
}

// A rectangle cut into buffers has an exact solution.
RC_GTEST_PROP(AllocationPropertiesTest, ReassemblesCutRectangles, ()) {
  struct Piece {
    std::int64_t begin, end, low, high;
  };
  std::vector<Piece> pieces = {{0, 32, 0, 64}};
  const int cuts = *rc::gen::inRange(0, 14);
  for (int i = 0; i < cuts; ++i) {
    const auto p = static_cast<std::size_t>(
        *rc::gen::inRange<int>(0, static_cast<int>(pieces.size())));
    Piece piece = pieces[p];
    if (*rc::gen::arbitrary<bool>()) {
      if (piece.end - piece.begin < 2) continue;
      const auto cut = *rc::gen::inRange(piece.begin + 1, piece.end);
      pieces[p].end = cut;
      piece.begin = cut;
    } else {
      if (piece.high - piece.low < 2) continue;
      const auto cut = *rc::gen::inRange(piece.low + 1, piece.high);
      pieces[p].high = cut;
      piece.low = cut;
    }
    pieces.push_back(piece);
  }
  std::vector<Buffer> buffers;
  for (const Piece& piece : pieces) {
    buffers.push_back({piece.begin, piece.end, Bytes(piece.high - piece.low)});
  }
  const auto allocation = Allocate(buffers, {}, {});
  RC_ASSERT(allocation.has_value());
  RC_ASSERT(allocation->pool == 64_B);
  RC_ASSERT(allocation->proven);
}

}  // namespace
}  // namespace ucudnn
