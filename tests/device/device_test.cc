#include "device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "device/host_memory.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

TEST(DeviceKindTest, ReadsBackWhatItWrites) {
  for (const DeviceKind& kind :
       {DeviceKind{"NVIDIA H200", 132, 139_GiB, "cudnn-9.19"},
        DeviceKind{"Odd/Model", 0, Bytes(), "onednn-2.6"}}) {
    const auto read = ParseDeviceKind(ToString(kind));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, kind);
  }
  EXPECT_EQ(ToString(DeviceKind{"NVIDIA H200", 132, 139_GiB, "cudnn-9.19"}),
            "NVIDIA H200/132u/139GiB/cudnn-9.19");
}

TEST(DeviceKindTest, RefusesOtherTexts) {
  for (const char* text :
       {"", "NVIDIA H200", "NVIDIA H200/16sm", "H200/132u/139GiB/",
        "/132u/139GiB/cudnn-9.19", "H200/132/139GiB/cudnn-9.19",
        "H200/0132u/139GiB/cudnn-9.19", "H200/132u/139 GiB/cudnn-9.19",
        "H200/132u/1024MiB/cudnn-9.19", "H200/-1u/1GiB/cudnn-9.19"}) {
    const auto kind = ParseDeviceKind(text);
    ASSERT_FALSE(kind) << text;
    EXPECT_EQ(kind.error().code, Code::kInvalidArgument);
    EXPECT_THAT(kind.error().message, HasSubstr("is not a device kind"));
  }
}

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
