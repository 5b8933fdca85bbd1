#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/files/file.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

namespace fs = std::filesystem;
using ::testing::StartsWith;

class ReplaceFileTest : public ::testing::Test {
 protected:
  std::ptrdiff_t Entries() const {
    return std::distance(fs::directory_iterator(folder_), {});
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(ReplaceFileTest, CreatesFoldersAndReplacesWhatIsThere) {
  const std::string path = folder_ / "deep" / "er" / "file";
  for (const std::string text : {"first and longer", "second", ""}) {
    ASSERT_TRUE(ReplaceFile(path, text));
    EXPECT_EQ(ReadFile(path, 1_KiB).value(), text);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "deep" / "er"), {}),
            1);
}

TEST_F(ReplaceFileTest, SaysWhyAFileCannotBeWritten) {
  std::ofstream(folder_ / "file") << "x";
  const Status written = ReplaceFile(folder_ / "file" / "p", "y");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message,
              StartsWith((folder_ / "file").string() + " cannot be created"));
  // A folder is in the way; the temporary file is removed.
  fs::create_directories(folder_ / "taken" / "x");
  EXPECT_FALSE(ReplaceFile(folder_ / "taken", "y"));
  EXPECT_EQ(Entries(), 2);
}

TEST_F(ReplaceFileTest, KeepsLinksAndWritesToPipes) {
  const fs::path link = folder_ / "link";
  std::ofstream(folder_ / "file") << "x";
  fs::create_symlink("file", link);
  ASSERT_TRUE(ReplaceFile(link, "y"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(ReadFile(folder_ / "file", 1_KiB).value(), "y");
  // As a root user's /dev/null, which must not become a file.
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { std::getline(std::ifstream(pipe), read); });
  EXPECT_TRUE(ReplaceFile(pipe, "z\n"));
  reader.join();
  EXPECT_EQ(read, "z");
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(Entries(), 3);
}

TEST_F(ReplaceFileTest, ShowsReadersOneWritersFileWhole) {
  const std::string path = folder_ / "shared";
  constexpr std::size_t kSize = 100'000;
  ASSERT_TRUE(ReplaceFile(path, std::string(kSize, 'a')));
  std::vector<std::thread> writers;
  for (const char letter : {'b', 'c'}) {
    writers.emplace_back([&, letter] {
      for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(ReplaceFile(path, std::string(kSize, letter)));
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const std::string seen = ReadFile(path, 1_MiB).value();
    ASSERT_EQ(seen, std::string(kSize, seen[0]));
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(Entries(), 1);
}

}  // namespace
}  // namespace ucudnn
