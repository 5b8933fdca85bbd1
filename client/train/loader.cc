#include "client/train/loader.h"

#include <algorithm>

#include "base/plan/even_shares.h"

namespace ucudnn::train {
namespace {

// Fewer images are not worth a thread.
constexpr std::int64_t kImagesOfReader = 4;

}  // namespace

void Loader::SetShare(std::array<TrainingBatch, 2> batches, BatchSize first,
                      BatchSize batch) {
  reading_.clear();  // waits
  ahead_ = -1;
  first_ = first;
  batch_ = batch;
  batches_ = std::move(batches);
}

void Loader::BeginReading(std::int64_t step,
                          const std::vector<ImagePart>& parts) {
  ahead_ = step;
  numbers_ = order_.Images(step, first_, batch_);
  parts_ = parts;
  const auto readers =
      std::clamp<std::int64_t>(batch_.count() / kImagesOfReader, 1, readers_);
  float* const to = BatchOf(step).images.data();
  std::int64_t first = 0;
  for (const BatchSize share :
       EvenShares(batch_, static_cast<std::size_t>(readers))) {
    const auto images = std::span<const std::int64_t>(numbers_).subspan(
        static_cast<std::size_t>(first),
        static_cast<std::size_t>(share.count()));
    reading_.push_back(
        std::async(std::launch::async,
                   [this, images, first, to] { Read(images, first, to); }));
    first += share.count();
  }
}

void Loader::Read(std::span<const std::int64_t> images, std::int64_t first,
                  float* to) const {
  const ImageExtent& extent = data_.extent();
  std::vector<float> pixels(static_cast<std::size_t>(extent.elements()));
  for (const std::int64_t image : images) {
    data_.Read(image, pixels.data());
    for (const ImagePart& part : parts_) {
      const std::int64_t size = ElementsOf(extent, part);
      CopyPart(extent, pixels.data(), part, to + part.first + first * size);
    }
    ++first;
  }
}

const TrainingBatch& Loader::Load(std::int64_t step,
                                  const std::vector<ImagePart>& parts,
                                  const std::vector<ImagePart>* next) {
  if (ahead_ != step || parts_ != parts) {
    reading_.clear();
    BeginReading(step, parts);
  }
  for (std::future<void>& part : reading_) part.get();
  reading_.clear();
  TrainingBatch& batch = BatchOf(step);
  const std::size_t pixels = batch.labels.size() / numbers_.size();
  auto label = batch.labels.begin();
  for (const std::int64_t image : numbers_) {
    label = std::fill_n(label, pixels,
                        static_cast<std::int32_t>(data_.Label(image)));
  }
  ahead_ = -1;
  if (next != nullptr) BeginReading(step + 1, *next);
  return batch;
}

}  // namespace ucudnn::train
