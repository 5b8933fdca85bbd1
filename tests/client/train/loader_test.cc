#include "client/examples/train/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/support/fake_device.h"

namespace ucudnn::train {
namespace {

using ::testing::ElementsAreArray;

constexpr std::int64_t kImages = 64;
constexpr BatchSize kBatch(32);

// Each pixel of an image holds the image's number.
class NumberedImages final : public Dataset {
 public:
  const ImageExtent& extent() const override { return extent_; }
  std::int64_t classes() const override { return 10; }
  std::int64_t size() const override { return kImages; }
  std::int64_t Label(std::int64_t image) const override { return image % 10; }
  void Read(std::int64_t image, float* pixels) const override {
    std::fill_n(pixels, extent_.elements(), static_cast<float>(image));
  }

 private:
  ImageExtent extent_{1, 2, 3};
};

Order MakeOrder() { return *Order::Create(kImages, kBatch, 7); }

// The result of a loader without threads or buffers.
std::vector<float> Pixels(std::int64_t step, BatchSize first, BatchSize batch) {
  std::vector<float> pixels;
  for (const std::int64_t image : MakeOrder().Images(step, first, batch)) {
    pixels.insert(pixels.end(), 6, static_cast<float>(image));
  }
  return pixels;
}

std::vector<std::int64_t> Labels(std::int64_t step, BatchSize first,
                                 BatchSize batch) {
  std::vector<std::int64_t> labels = MakeOrder().Images(step, first, batch);
  for (std::int64_t& label : labels) label %= 10;
  return labels;
}

TEST(LoaderTest, GivesTheShareOfEachStepInItsOrder) {
  const NumberedImages data;
  for (const int readers : {1, 3, 8}) {
    FakeDevice device;
    Loader loader(data, MakeOrder(), readers);
    const BatchSize first(5);
    for (const BatchSize batch : {BatchSize(1), BatchSize(7), BatchSize(27)}) {
      ASSERT_TRUE(loader.SetShare(device, first, batch));
      for (std::int64_t step = 0; step < 5; ++step) {
        const Loader::Images images = loader.Load(step, step == 4);
        EXPECT_THAT(std::vector(images.pixels.begin(), images.pixels.end()),
                    ElementsAreArray(Pixels(step, first, batch)))
            << readers << " readers, step " << step;
        EXPECT_EQ(images.labels, Labels(step, first, batch));
      }
    }
  }
}

TEST(LoaderTest, ReadsAgainForAnotherShareOrStep) {
  const NumberedImages data;
  FakeDevice device;
  Loader loader(data, MakeOrder(), 2);
  ASSERT_TRUE(loader.SetShare(device, BatchSize(0), BatchSize(16)));
  (void)loader.Load(0, false);
  ASSERT_TRUE(loader.SetShare(device, BatchSize(16), BatchSize(12)));
  EXPECT_EQ(loader.Load(1, false).labels,
            Labels(1, BatchSize(16), BatchSize(12)));
  const Loader::Images images = loader.Load(9, true);
  EXPECT_THAT(std::vector(images.pixels.begin(), images.pixels.end()),
              ElementsAreArray(Pixels(9, BatchSize(16), BatchSize(12))));
}

// Images that can only be read by two threads at once.
class MeetingImages final : public Dataset {
 public:
  const ImageExtent& extent() const override { return extent_; }
  std::int64_t classes() const override { return 1; }
  std::int64_t size() const override { return kImages; }
  std::int64_t Label(std::int64_t) const override { return 0; }
  void Read(std::int64_t, float* pixels) const override {
    *pixels = 0;
    std::unique_lock lock(mutex_);
    if (++arrived_ >= 2) met_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, std::chrono::seconds(10),
                           [this] { return met_; })) {
      late_ = true;
      met_ = true;
    }
    --arrived_;
  }
  bool late() const { return late_; }

 private:
  ImageExtent extent_{1, 1, 1};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int arrived_ = 0;
  mutable bool met_ = false;
  mutable std::atomic<bool> late_ = false;
};

TEST(LoaderTest, ReadsWithSeveralThreadsAtOnce) {
  const MeetingImages data;
  FakeDevice device;
  Loader loader(data, MakeOrder(), 2);
  ASSERT_TRUE(loader.SetShare(device, BatchSize(0), BatchSize(8)));
  (void)loader.Load(0, true);
  EXPECT_FALSE(data.late());
}

}  // namespace
}  // namespace ucudnn::train
