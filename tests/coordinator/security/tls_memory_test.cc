// The buffers of TLS connections, in pages of their own.

#include "coordinator/security/tls_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace ucudnn {
namespace {

std::size_t PagesInMemory(void* block, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  EXPECT_EQ(mincore(block, bytes, pages.data()), 0);
  std::size_t present = 0;
  for (const unsigned char in_memory : pages) present += in_memory & 1U;
  return present;
}

TEST(SparseBlocksTest, TakesThePagesThatWereWrittenTo) {
  SparseBlocks blocks(kTlsBufferBytes, 2);
  void* const block = blocks.Take();
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(PagesInMemory(block, kTlsBufferBytes), 0U);
  std::memset(block, 1, 100);
  EXPECT_EQ(PagesInMemory(block, kTlsBufferBytes), 1U);
  blocks.Give(block);
  EXPECT_EQ(blocks.Take(), block);
  EXPECT_EQ(PagesInMemory(block, kTlsBufferBytes), 0U);
}

TEST(SparseBlocksTest, EndsWithItsLastBlock) {
  SparseBlocks blocks(100, 2);
  void* const first = blocks.Take();
  void* const second = blocks.Take();
  EXPECT_NE(first, second);
  EXPECT_EQ(blocks.Take(), nullptr);
  EXPECT_EQ(blocks.taken(), 2U);
  EXPECT_TRUE(blocks.Has(second));
  EXPECT_FALSE(blocks.Has(&blocks));
  EXPECT_FALSE(blocks.Has(nullptr));
  blocks.Give(first);
  EXPECT_EQ(blocks.taken(), 1U);
  EXPECT_EQ(blocks.Take(), first);
}

TEST(SparseBlocksTest, HasNoneWhereTheSystemRefuses) {
  SparseBlocks blocks(kTlsBufferBytes, std::size_t{1} << 45);
  EXPECT_EQ(blocks.Take(), nullptr);
  EXPECT_FALSE(blocks.Has(&blocks));
}

}  // namespace
}  // namespace ucudnn
