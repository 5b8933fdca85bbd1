#include "solver/knapsack/scratch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ucudnn {
namespace {

TEST(ScratchTest, GivesMemoryOfItsOwnWhileItSufficesThenOfTheHeap) {
  Scratch<256> scratch;
  const auto own = [&scratch](const void* at) {
    const auto* const byte = static_cast<const std::byte*>(at);
    const auto* const begin = reinterpret_cast<const std::byte*>(&scratch);
    return byte >= begin && byte < begin + sizeof(scratch);
  };
  std::pmr::vector<std::uint64_t> small(8, 1, &scratch);
  EXPECT_TRUE(own(small.data()));
  std::pmr::vector<std::uint64_t> large(1000, 2, &scratch);
  EXPECT_FALSE(own(large.data()));
  std::pmr::vector<std::uint8_t> rest(16, 3, &scratch);
  EXPECT_TRUE(own(rest.data()));
  EXPECT_EQ(small, std::pmr::vector<std::uint64_t>(8, 1));
  EXPECT_EQ(large, std::pmr::vector<std::uint64_t>(1000, 2));
  EXPECT_EQ(rest, std::pmr::vector<std::uint8_t>(16, 3));
}

TEST(ScratchTest, AlignsWhatItGives) {
  Scratch<1024> scratch;
  for (std::size_t alignment = 1; alignment <= 64; alignment *= 2) {
    void* const at = scratch.allocate(1, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % alignment, 0U);
    scratch.deallocate(at, 1, alignment);
  }
}

}  // namespace
}  // namespace ucudnn
