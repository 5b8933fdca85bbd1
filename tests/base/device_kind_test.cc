#include "base/device_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ucudnn
