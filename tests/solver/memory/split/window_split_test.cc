#include "solver/memory/split/window_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ucudnn {
namespace {

TEST(WindowSplitTest, CutsBetweenTheFirstElementReadBehindAndTheLastBefore) {
  // 3x3, padding 1: output 3 reads 2 to 4, output 2 reads 1 to 3.
  const CutRange range = CutsFor({3, 1, 1, 1}, 3);
  EXPECT_EQ(range.low, 2);
  EXPECT_EQ(range.high, 4);
  // 2x2, stride 2: nothing is read on both sides.
  EXPECT_EQ(CutsFor({2, 2, 0, 0}, 3).low, 6);
  EXPECT_EQ(CutsFor({2, 2, 0, 0}, 3).high, 6);
  // 1x1, stride 2: input 5 is read by nobody, and goes with the part before.
  EXPECT_EQ(CutsFor({1, 2, 0, 0}, 3).low, 6);
  EXPECT_EQ(CutsFor({1, 2, 0, 0}, 3).high, 6);
}

TEST(WindowSplitTest, PadsInnerEdgesByWhatTheWindowsLack) {
  const Window whole{3, 1, 1, 1};
  EXPECT_EQ(WindowOfPart(whole, {0, 3}, {0, 3}, 6), (Window{3, 1, 1, 1}));
  // One element later: the part before needs no padding, the one behind two.
  EXPECT_EQ(WindowOfPart(whole, {0, 4}, {0, 3}, 6), (Window{3, 1, 1, 0}));
  EXPECT_EQ(WindowOfPart(whole, {4, 6}, {3, 6}, 6), (Window{3, 1, 2, 1}));
}

// Elements of the input that output `o` reads, counted from the input's first;
// those outside [0, size) are padding.
std::int64_t FirstRead(const Window& window, std::int64_t o) {
  return o * window.stride - window.before;
}

TEST(WindowSplitTest, PartsComputeTheOutputsOfTheWholeOnThousandsOfLayers) {
  std::mt19937 random(11);
  const auto number = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  int layers = 0;
  int parts_seen = 0;
  while (layers < 6000) {
    Window window{number(1, 11), number(1, 5), 0, 0};
    window.before = number(0, window.extent - 1);
    window.after = number(0, window.extent - 1);
    const std::int64_t size = number(window.extent, 80);
    const std::int64_t outputs = window.OutputOf(size);
    // Brute force: as many windows as lie inside the padded input.
    std::int64_t inside = 0;
    while (FirstRead(window, inside) + window.extent <= size + window.after) {
      ++inside;
    }
    ASSERT_EQ(outputs, inside);
    if (outputs < 2) continue;
    ++layers;
    std::vector<std::int64_t> out = {0, outputs};
    std::vector<std::int64_t> in = {0, size};
    for (std::int64_t n = number(1, 4); n > 0; --n) {
      const std::int64_t cut = number(1, outputs - 1);
      if (std::count(out.begin(), out.end(), cut) > 0) continue;
      const CutRange range = CutsFor(window, cut);
      // Brute force: the first element that the part behind reads, and the
      // element after the last that the part before does.
      EXPECT_EQ(range.low, FirstRead(window, cut));
      EXPECT_EQ(range.high, std::max(FirstRead(window, cut - 1) + window.extent,
                                     range.low));
      const std::int64_t low = std::max<std::int64_t>(range.low, 0);
      const std::int64_t high = std::min(range.high, size);
      if (low > high) continue;
      out.push_back(cut);
      in.push_back(number(low, high));
    }
    std::sort(out.begin(), out.end());
    std::sort(in.begin(), in.end());
    std::int64_t sum = 0;
    for (std::size_t i = 0; i + 1 < out.size(); ++i) {
      ++parts_seen;
      const Interval input{in[i], in[i + 1]};
      const Interval output{out[i], out[i + 1]};
      const Window part = WindowOfPart(window, input, output, outputs);
      EXPECT_GE(part.before, 0);
      EXPECT_GE(part.after, 0);
      const std::int64_t computed = part.OutputOf(input.size());
      EXPECT_EQ(computed, output.size());
      sum += computed;
      for (std::int64_t o = 0; o < computed; ++o) {
        // The window lies where the whole's does, inside part and padding.
        const std::int64_t first = FirstRead(part, o);
        EXPECT_EQ(input.begin + first, FirstRead(window, output.begin + o));
        EXPECT_GE(first, -part.before);
        EXPECT_LE(first + part.extent, input.size() + part.after);
      }
    }
    EXPECT_EQ(sum, outputs);
    if (::testing::Test::HasFailure()) {
      FAIL() << "extent " << window.extent << ", stride " << window.stride
             << ", padding " << window.before << " and " << window.after
             << ", input " << size;
    }
  }
  EXPECT_GT(parts_seen, 12'000);
}

// All ways to cut the tensors, by trying every place of each.
std::vector<std::vector<std::int64_t>> AllCuts(
    const std::vector<WindowStep>& steps,
    const std::vector<std::int64_t>& sizes, std::size_t last,
    std::int64_t place) {
  std::vector<std::vector<std::int64_t>> found;
  std::vector<std::int64_t> at(sizes.size(), 1);
  at[last] = place;
  while (true) {
    const bool fits =
        std::all_of(steps.begin(), steps.end(), [&](const WindowStep& step) {
          const CutRange range = CutsFor(step.window, at[step.output]);
          return at[step.input] >= range.low && at[step.input] <= range.high;
        });
    if (fits) found.push_back(at);
    std::size_t i = 0;
    while (i < at.size() && (i == last || ++at[i] > sizes[i] - 1)) {
      if (i != last) at[i] = 1;
      ++i;
    }
    if (i == at.size()) return found;
  }
}

TEST(FindCutsTest, FindsASolutionExactlyWhereThereIsOne) {
  std::mt19937 random(5);
  const auto number = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  int solved = 0;
  int refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    // Four tensors of up to 9 elements, each but the first made of one or two
    // of those before it; sizes need not agree, since only cuts are asked for.
    std::vector<WindowStep> steps;
    std::vector<std::int64_t> sizes;
    for (std::size_t t = 0; t < 4; ++t) {
      sizes.push_back(number(2, 9));
      for (std::int64_t n = t == 0 ? 0 : number(1, 2); n > 0; --n) {
        const auto input = static_cast<std::size_t>(
            number(0, static_cast<std::int64_t>(t) - 1));
        Window window{number(1, 4), number(1, 2), 0, 0};
        window.before = number(0, window.extent - 1);
        steps.push_back({input, t, window});
      }
    }
    std::vector<std::int64_t> before(sizes.size(), 0);
    for (std::int64_t place = 1; place < sizes.back(); ++place) {
      const auto all = AllCuts(steps, sizes, 3, place);
      const Cuts cuts = FindCuts(steps, sizes, 3, place);
      ASSERT_EQ(cuts.conflict.has_value(), all.empty());
      if (cuts.conflict) {
        ++refused;
        continue;
      }
      ++solved;
      for (std::size_t t = 0; t < sizes.size(); ++t) {
        // No place falls as the last one rises.
        EXPECT_GE(cuts.places[t], before[t]);
      }
      before = cuts.places;
      EXPECT_THAT(all, ::testing::Contains(cuts.places));
    }
  }
  EXPECT_GT(solved, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace ucudnn
