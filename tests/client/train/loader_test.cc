#include "client/train/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ucudnn::train {
namespace {

using ::testing::ElementsAreArray;

constexpr std::int64_t kImages = 64;
constexpr BatchSize kBatch(32);

// Each pixel of an image holds the image's number.
class NumberedImages final : public Dataset {
 public:
  NumberedImages() : Dataset({1, 2, 3}, 10) {}

  std::int64_t size() const override { return kImages; }
  std::int64_t Label(std::int64_t image) const override { return image % 10; }
  void Read(std::int64_t image, float* pixels) const override {
    std::fill_n(pixels, extent().elements(), static_cast<float>(image));
  }
};

const std::vector<ImagePart> kWhole = {{0, 0, 2, 0, 3}};

Order MakeOrder() { return *Order::Create(kImages, kBatch, 7); }

// The result of a loader without threads or buffers.
std::vector<float> Pixels(std::int64_t step, BatchSize first, BatchSize batch) {
  std::vector<float> pixels;
  for (const std::int64_t image : MakeOrder().Images(step, first, batch)) {
    pixels.insert(pixels.end(), 6, static_cast<float>(image));
  }
  return pixels;
}

// Two labels an image.
std::vector<std::int32_t> Labels(std::int64_t step, BatchSize first,
                                 BatchSize batch) {
  std::vector<std::int32_t> labels;
  for (const std::int64_t image : MakeOrder().Images(step, first, batch)) {
    labels.insert(labels.end(), 2, static_cast<std::int32_t>(image % 10));
  }
  return labels;
}

std::array<TrainingBatch, 2> RoomFor(BatchSize batch) {
  std::array<TrainingBatch, 2> batches;
  for (TrainingBatch& made : batches) {
    const auto images = static_cast<std::size_t>(batch.count());
    auto* const memory = new float[8 * images];
    made.images = {memory, 6 * images};
    made.labels = {reinterpret_cast<std::int32_t*>(memory + 6 * images),
                   2 * images};
    made.memory = DeviceBuffer(memory, Bytes(32 * batch.count()), [](void* p) {
      delete[] static_cast<float*>(p);
    });
  }
  return batches;
}

std::vector<float> PixelsOf(const TrainingBatch& batch) {
  return {batch.images.begin(), batch.images.end()};
}
std::vector<std::int32_t> LabelsOf(const TrainingBatch& batch) {
  return {batch.labels.begin(), batch.labels.end()};
}

TEST(LoaderTest, GivesTheShareOfEachStepInItsOrder) {
  const NumberedImages data;
  for (const int readers : {1, 3, 8}) {
    Loader loader(data, MakeOrder(), readers);
    const BatchSize first(5);
    for (const BatchSize batch : {BatchSize(1), BatchSize(7), BatchSize(27)}) {
      loader.SetShare(RoomFor(batch), first, batch);
      for (std::int64_t step = 0; step < 5; ++step) {
        const TrainingBatch& images =
            loader.Load(step, kWhole, step < 4 ? &kWhole : nullptr);
        EXPECT_THAT(PixelsOf(images),
                    ElementsAreArray(Pixels(step, first, batch)))
            << readers << " readers, step " << step;
        EXPECT_EQ(LabelsOf(images), Labels(step, first, batch));
      }
    }
  }
}

TEST(LoaderTest, ReadsAgainForAnotherShareOrStep) {
  const NumberedImages data;
  Loader loader(data, MakeOrder(), 2);
  loader.SetShare(RoomFor(BatchSize(16)), BatchSize(0), BatchSize(16));
  (void)loader.Load(0, kWhole, &kWhole);
  loader.SetShare(RoomFor(BatchSize(12)), BatchSize(16), BatchSize(12));
  EXPECT_EQ(LabelsOf(loader.Load(1, kWhole, &kWhole)),
            Labels(1, BatchSize(16), BatchSize(12)));
  EXPECT_THAT(PixelsOf(loader.Load(9, kWhole, nullptr)),
              ElementsAreArray(Pixels(9, BatchSize(16), BatchSize(12))));
}

// Each pixel holds 100 times its slice, 10 times its row, and its column.
class PlacedImages final : public Dataset {
 public:
  explicit PlacedImages(std::int64_t depth) : Dataset({1, 2, 3, depth}, 1) {}

  std::int64_t size() const override { return kImages; }
  std::int64_t Label(std::int64_t) const override { return 0; }
  void Read(std::int64_t, float* pixels) const override {
    for (std::int64_t i = 0; i < extent().elements(); ++i) {
      *pixels++ = static_cast<float>(i / 6 * 100 + i / 3 % 2 * 10 + i % 3);
    }
  }
};

TEST(LoaderTest, CutsTheImagesOfEachStepWhereItIsTold) {
  const PlacedImages data(1);
  Loader loader(data, MakeOrder(), 1);
  loader.SetShare(RoomFor(BatchSize(2)), BatchSize(0), BatchSize(2));
  // Rooms of two images each, for parts of 2 and 4 elements.
  const std::vector<ImagePart> left = {{0, 0, 2, 0, 1}, {4, 0, 2, 1, 2}};
  const std::vector<ImagePart> top = {{0, 0, 1, 0, 2}, {4, 1, 1, 0, 3}};
  EXPECT_THAT(PixelsOf(loader.Load(0, left, &top)),
              ElementsAreArray({0, 10, 0, 10, 1, 2, 11, 12, 1, 2, 11, 12}));
  const std::vector<float> next = PixelsOf(loader.Load(1, top, nullptr));
  EXPECT_THAT(std::vector<float>(next.begin(), next.begin() + 10),
              ElementsAreArray({0, 1, 0, 1, 10, 11, 12, 10, 11, 12}));
}

TEST(LoaderTest, CutsEachSliceOfVolumes) {
  const PlacedImages data(2);
  Loader loader(data, MakeOrder(), 1);
  // Rooms of two volumes each, for parts of 4 and 8 elements.
  loader.SetShare(RoomFor(BatchSize(4)), BatchSize(0), BatchSize(2));
  const std::vector<ImagePart> left = {{0, 0, 2, 0, 1}, {8, 0, 2, 1, 2}};
  const std::vector<float> pixels = PixelsOf(loader.Load(0, left, nullptr));
  EXPECT_THAT(pixels, ElementsAreArray({0, 10, 100, 110, 0,   10,  100, 110,
                                        1, 2,  11,  12,  101, 102, 111, 112,
                                        1, 2,  11,  12,  101, 102, 111, 112}));
}

// Images that can only be read by two threads at once.
class MeetingImages final : public Dataset {
 public:
  MeetingImages() : Dataset({1, 1, 1}, 1) {}

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
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int arrived_ = 0;
  mutable bool met_ = false;
  mutable std::atomic<bool> late_ = false;
};

TEST(LoaderTest, ReadsWithSeveralThreadsAtOnce) {
  const MeetingImages data;
  Loader loader(data, MakeOrder(), 2);
  loader.SetShare(RoomFor(BatchSize(8)), BatchSize(0), BatchSize(8));
  (void)loader.Load(0, {{0, 0, 1, 0, 1}}, nullptr);
  EXPECT_FALSE(data.late());
}

}  // namespace
}  // namespace ucudnn::train
