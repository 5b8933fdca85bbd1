#include "base/files/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdio>
#include <fstream>

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  ~FileTest() override { std::remove(path_.c_str()); }

  void Write(const std::string& contents) {
    std::ofstream(path_, std::ios::binary) << contents;
  }
  Result<std::string> Read(Bytes max_size = 1_MiB) {
    return ReadFile(path_, max_size);
  }

  const std::string path_ =
      ::testing::TempDir() + "/ucudnn_file_test." +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

std::string Gzip(std::string text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9,
                         Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

TEST_F(FileTest, ReadsPlainFiles) {
  for (const std::string text : {"", "x", "ab", "line\nline\n"}) {
    Write(text);
    EXPECT_EQ(Read().value(), text);
  }
  const std::string large(300'000, 'x');
  Write(large);
  EXPECT_EQ(Read().value(), large);
}

TEST_F(FileTest, DecompressesGzipWhateverItsName) {
  for (const std::string& text :
       {std::string(), std::string("x"), std::string(500'000, 'y')}) {
    Write(Gzip(text));
    EXPECT_EQ(Read().value(), text);
  }
  std::string varied;
  for (int i = 0; i < 200'000; ++i) varied += std::to_string(i * 7919 % 10007);
  Write(Gzip(varied));
  EXPECT_EQ(Read().value(), varied);
}

TEST_F(FileTest, JoinsGzipMembersAndSkipsPadding) {
  Write(Gzip("one ") + Gzip("") + Gzip("two") + std::string(700, '\0'));
  EXPECT_EQ(Read().value(), "one two");
}

TEST_F(FileTest, BoundsWhatItReads) {
  Write("123456789");
  EXPECT_TRUE(Read(9_B));
  const auto plain = Read(8_B);
  EXPECT_EQ(plain.error().code, Code::kResourceExhausted);
  EXPECT_THAT(plain.error().message,
              AllOf(HasSubstr(path_), HasSubstr("larger than 8")));
  Write(Gzip(std::string(1 << 20, 'z')));
  EXPECT_TRUE(Read(1_MiB));
  EXPECT_EQ(Read(Bytes((1 << 20) - 1)).error().code, Code::kResourceExhausted);
}

TEST_F(FileTest, RefusesBrokenGzip) {
  const std::string good = Gzip("some text that is long enough to be cut");
  for (std::size_t size = 2; size < good.size(); ++size) {
    Write(good.substr(0, size));
    const auto cut = Read();
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().code, Code::kDataLoss);
  }
  std::string flipped = good;
  flipped[20] = char(flipped[20] ^ 0x55);
  Write(flipped);
  EXPECT_EQ(Read().error().code, Code::kDataLoss);
  Write(good + "garbage");
  EXPECT_THAT(Read().error().message, HasSubstr("gzip data is broken"));
}

TEST_F(FileTest, SaysWhyItCannotOpen) {
  const auto missing = ReadFile("/nonexistent/x.csv", 1_MiB);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_THAT(missing.error().message, AllOf(HasSubstr("/nonexistent/x.csv"),
                                             HasSubstr("No such file")));
  EXPECT_THAT(ReadFile("/", 1_MiB).error().message,
              HasSubstr("is a directory"));
}

TEST_F(FileTest, DoesNotReadDevicesForever) {
  EXPECT_EQ(ReadFile("/dev/zero", 1_MiB).error().code,
            Code::kResourceExhausted);
}

}  // namespace
}  // namespace ucudnn
