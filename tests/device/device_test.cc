#include "device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "device/host_memory.h"

namespace ucudnn {
namespace {

TEST(DeviceBufferTest, FreesOnceAfterMoves) {
  int freed = 0;
  char memory = 0;
  {
    DeviceBuffer first(&memory, 1_B, [&](void* p) {
      EXPECT_EQ(p, &memory);
      ++freed;
    });
    DeviceBuffer second = std::move(first);
    DeviceBuffer third;
    third = std::move(second);
    EXPECT_EQ(third.data(), &memory);
    EXPECT_EQ(third.size(), 1_B);
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
}

TEST(HostMemoryTest, RefusesMoreThanIsAvailable) {
  const auto memory = AllocateHostMemory(TotalHostMemory() * 2);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, Code::kResourceExhausted);
  EXPECT_FALSE(AllocateHostMemory(Bytes(-1)));
}

TEST(HostMemoryTest, AlignsWhatItGives) {
  for (const Bytes size : {Bytes(), 1_B, 257_B, 17_MiB}) {
    const auto memory = AllocateHostMemory(size);
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % 256, 0U);
  }
}

TEST(HostMemoryTest, HasNoMoreAvailableThanInTotal) {
  EXPECT_GT(AvailableHostMemory(), Bytes());
  EXPECT_LE(AvailableHostMemory(), TotalHostMemory());
}

}  // namespace
}  // namespace ucudnn
