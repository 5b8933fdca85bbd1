#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/files/file.h"
#include "base/service/host.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
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

TEST_F(ReplaceFileTest, SaysBeforeTheWorkThatItCouldNotWrite) {
  const std::string path = folder_ / "new/file";
  EXPECT_TRUE(PrepareToReplace(path));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_empty(folder_ / "new"));
  ASSERT_TRUE(ReplaceFile(path, "x"));
  EXPECT_TRUE(PrepareToReplace(path));
  EXPECT_EQ(ReadFile(path, 1_MiB), "x");
  EXPECT_TRUE(PrepareToReplace("/dev/null"));
  const auto refused = [](const std::string& name) {
    const Status status = PrepareToReplace(name);
    return status ? std::string() : status.error().message;
  };
  EXPECT_THAT(refused(path + "/under"), HasSubstr(path + " cannot be created"));
  EXPECT_THAT(refused(folder_), HasSubstr("is a folder"));
}

TEST_F(ReplaceFileTest, RemovesWhatKilledProcessesLeft) {
  const pid_t ended = fork();
  ASSERT_GE(ended, 0);
  if (ended == 0) _exit(0);
  ASSERT_EQ(waitpid(ended, nullptr, 0), ended);
  const std::string path = folder_ / "file";
  const auto old = [&](const std::string& suffix) {
    const std::string left = path + "." + suffix;
    std::ofstream(left) << "half";
    fs::last_write_time(
        left, fs::file_time_type::clock::now() - std::chrono::hours(2));
    return left;
  };
  const std::string dead = fmt::format("{}.{}.3", HostName(), ended);
  const std::string left = old(dead);
  const std::vector<std::string> others = {
      old(fmt::format("{}.{}.3", HostName(), getpid())),
      old(fmt::format("other-host.{}.3", ended)), old(dead + "a"),
      old(fmt::format("{}.{}", HostName(), ended))};
  ASSERT_TRUE(PrepareToReplace(path));
  EXPECT_FALSE(fs::exists(left));
  for (const std::string& other : others) {
    EXPECT_TRUE(fs::exists(other)) << other;
  }
  std::ofstream(left) << "new";
  ASSERT_TRUE(PrepareToReplace(path));
  EXPECT_TRUE(fs::exists(left));
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
