#include "client/ranks/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ucudnn {
namespace {

constexpr std::size_t kSize = 3 * 4096 + 5;

TEST(SharedMemoryTest, IsSharedByAllThatOpenIt) {
  const auto made = SharedMemory::Create(kSize).value();
  EXPECT_EQ(made->size(), kSize);
  EXPECT_EQ(made->data()[kSize - 1], std::byte{0});
  const pid_t child = fork();
  if (child == 0) {
    const auto opened = SharedMemory::Open(made->path(), kSize);
    if (!opened) _exit(1);
    (*opened)->data()[kSize - 1] = std::byte{7};
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(made->data()[kSize - 1], std::byte{7});
}

TEST(SharedMemoryTest, LastsAsLongAsAProcessMapsIt) {
  auto made = SharedMemory::Create(kSize).value();
  const auto opened = SharedMemory::Open(made->path(), kSize).value();
  made->data()[0] = std::byte{3};
  made.reset();
  EXPECT_EQ(opened->data()[0], std::byte{3});
}

TEST(SharedMemoryTest, CannotBeOpenedOnceSealedOrWithAnotherSize) {
  const auto made = SharedMemory::Create(kSize).value();
  const std::string path = made->path();
  const auto other = SharedMemory::Open(path, kSize + 1);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kUnavailable);
  EXPECT_THAT(other.error().message, ::testing::HasSubstr(path));
  made->Seal();
  EXPECT_FALSE(SharedMemory::Open(path, kSize));
}

TEST(SharedMemoryTest, KnowsItsPlace) {
  EXPECT_EQ(SharedMemory::Place(), SharedMemory::Place());
  EXPECT_THAT(SharedMemory::Place(), ::testing::HasSubstr("pid:["));
}

}  // namespace
}  // namespace ucudnn
