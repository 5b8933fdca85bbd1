#include "client/train/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "tests/support/process.h"

namespace ucudnn::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;

std::string BigEndian(std::uint32_t n) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += static_cast<char>(n >> shift & 0xffU);
  }
  return text;
}

// Images of 2x3 with consecutive pixel values.
std::string MnistImages(std::uint32_t count) {
  std::string text =
      BigEndian(0x803) + BigEndian(count) + BigEndian(2) + BigEndian(3);
  for (std::uint32_t i = 0; i < 6 * count; ++i) text += static_cast<char>(i);
  return text;
}

std::string MnistLabels(const std::string& labels) {
  return BigEndian(0x801) +
         BigEndian(static_cast<std::uint32_t>(labels.size())) + labels;
}

Result<StoredImages> Parse(const std::string& images,
                           const std::string& labels) {
  return ParseMnist(images, "images", labels, "labels");
}

TEST(DataTest, ReadsMnist) {
  const auto data = Parse(MnistImages(2), MnistLabels({3, 9}));
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->classes(), 10);
  EXPECT_EQ(data->extent(), (ImageExtent{1, 2, 3}));
  EXPECT_EQ(data->Label(1), 9);
  float pixels[6];
  data->Read(1, pixels);
  EXPECT_FLOAT_EQ(pixels[0], 6 / 127.5F - 1);
  EXPECT_FLOAT_EQ(pixels[5], 11 / 127.5F - 1);
}

TEST(DataTest, SaysWhereMnistIsMalformed) {
  const std::string images = MnistImages(2);
  const std::string labels = MnistLabels({3, 9});
  struct Case {
    std::string images;
    std::string labels;
    std::vector<std::string> words;
  };
  std::string magic = images;
  magic[3] = 1;
  std::string flat = images;
  flat[11] = 0;
  const Case cases[] = {
      {"", labels, {"images: offset 0", "ends after 0 bytes"}},
      {magic, labels, {"images: offset 0", "0x00000801", "0x00000803"}},
      {flat, labels, {"images: offset 8", "0;", "1 to 4096"}},
      {images.substr(0, 20), labels, {"images: offset 16", "4 bytes", "12"}},
      {images + "x", labels, {"images: offset 16", "13 bytes", "12"}},
      {images, MnistLabels({3}), {"labels: offset 4", "1 labels", "2 are"}},
      {images, MnistLabels({3, 10}), {"labels: offset 9", "label 10", "9"}},
      {images, labels.substr(0, 6), {"labels: offset 4", "6 bytes"}},
  };
  for (const Case& c : cases) {
    const auto data = Parse(c.images, c.labels);
    ASSERT_FALSE(data) << c.words[0];
    EXPECT_EQ(data.error().code, Code::kInvalidArgument);
    for (const std::string& word : c.words) {
      EXPECT_THAT(data.error().message, HasSubstr(word));
    }
  }
}

TEST(DataTest, ReadsCifar10) {
  std::string text;
  for (const char label : std::string{7, 0}) {
    text += label;
    text += std::string(1024, '\0') + std::string(1024, '\x7f') +
            std::string(1024, '\xff');
  }
  StoredImages images = NoCifar10Images();
  ASSERT_TRUE(ParseCifar10(text, "batch", &images));
  ASSERT_TRUE(ParseCifar10(text, "batch", &images));
  EXPECT_EQ(images.size(), 4);
  EXPECT_EQ(images.Label(2), 7);
  std::vector<float> pixels(3072);
  images.Read(3, pixels.data());
  EXPECT_FLOAT_EQ(pixels[0], -1);
  EXPECT_FLOAT_EQ(pixels[3071], 1);

  text[3073] = 11;
  Status bad = ParseCifar10(text, "batch", &images);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message,
              AllOf(HasSubstr("batch: offset 3073"), HasSubstr("label 11")));
  bad = ParseCifar10(text.substr(1), "batch", &images);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message,
              AllOf(HasSubstr("offset 6145"), HasSubstr("3072 bytes into")));
  EXPECT_EQ(images.size(), 4);
}

class FilesTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(FilesTest, ReadsFoldersAsTheyAreDistributed) {
  EXPECT_THAT(ReadMnist(folder_).error().message,
              HasSubstr("train-images-idx3-ubyte"));
  Write("train-images-idx3-ubyte", MnistImages(3));
  Write("train-labels-idx1-ubyte", MnistLabels({1, 2, 3}));
  const auto mnist = ReadMnist(folder_);
  ASSERT_TRUE(mnist) << mnist.error().message;
  EXPECT_EQ(mnist->size(), 3);

  EXPECT_THAT(ReadCifar10(folder_).error().message,
              HasSubstr("data_batch_1.bin"));
  Write("data_batch_1.bin", std::string(3073, '\1'));
  Write("data_batch_2.bin", std::string(2 * 3073, '\2'));
  const auto cifar = ReadCifar10(folder_);
  ASSERT_TRUE(cifar) << cifar.error().message;
  EXPECT_EQ(cifar->size(), 3);
}

TEST(DataTest, MakesTheSameImagesForTheSameSeed) {
  const SyntheticImages data({2, 4, 4}, 3, 100, 5);
  const SyntheticImages same({2, 4, 4}, 3, 100, 5);
  const SyntheticImages other({2, 4, 4}, 3, 100, 6);
  std::vector<float> a(32);
  std::vector<float> b(32);
  for (const std::int64_t image : {0, 41}) {
    data.Read(image, a.data());
    same.Read(image, b.data());
    EXPECT_EQ(a, b);
    other.Read(image, b.data());
    EXPECT_NE(a, b);
    EXPECT_EQ(data.Label(image), image % 3);
  }
}

TEST(OrderTest, GivesEachImageOnceInAnEpochAndAnotherOrderInTheNext) {
  auto order = Order::Create(11, BatchSize(5), 7);
  ASSERT_TRUE(order);
  EXPECT_EQ(order->steps_per_epoch(), 2);
  std::vector<std::int64_t> epochs[2];
  for (std::int64_t step = 0; step < 4; ++step) {
    for (const std::int64_t image :
         order->Images(step, BatchSize(0), BatchSize(5))) {
      epochs[step / 2].push_back(image);
    }
  }
  for (const auto& epoch : epochs) {
    EXPECT_EQ(std::set<std::int64_t>(epoch.begin(), epoch.end()).size(), 10U);
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(OrderTest, GivesTheSharesOfOneMiniBatchWhateverWasAskedBefore) {
  auto order = Order::Create(50, BatchSize(8), 3);
  auto fresh = Order::Create(50, BatchSize(8), 3);
  ASSERT_TRUE(order && fresh);
  for (const std::int64_t step : {0, 7, 3, 40}) {
    const auto whole = order->Images(step, BatchSize(0), BatchSize(8));
    auto parts = order->Images(step, BatchSize(0), BatchSize(3));
    const auto none = order->Images(step, BatchSize(3), BatchSize(0));
    const auto rest = order->Images(step, BatchSize(3), BatchSize(5));
    EXPECT_TRUE(none.empty());
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, whole);
  }
  EXPECT_EQ(order->Images(40, BatchSize(0), BatchSize(8)),
            fresh->Images(40, BatchSize(0), BatchSize(8)));
  EXPECT_THAT(Order::Create(7, BatchSize(8), 3).error().message,
              AllOf(HasSubstr("8"), HasSubstr("7 images")));
}

}  // namespace
}  // namespace ucudnn::train
