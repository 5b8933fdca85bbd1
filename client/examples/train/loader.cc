#include "client/examples/train/loader.h"

#include <algorithm>

#include "base/plan/even_shares.h"

namespace ucudnn::train {
namespace {

// Fewer images are not worth a thread.
constexpr std::int64_t kImagesOfReader = 4;

}  // namespace

Status Loader::SetShare(Device& device, BatchSize first, BatchSize batch) {
  reading_.clear();  // waits
  ahead_ = -1;
  first_ = first;
  batch_ = batch;
  const Bytes size(batch.count() * data_.extent().elements() *
                   std::int64_t{sizeof(float)});
  for (DeviceBuffer& pixels : pixels_) {
    pixels.Reset();
    UCUDNN_ASSIGN_OR_RETURN(pixels, device.AllocateHost(size));
  }
  return {};
}

std::span<float> Loader::PixelsOf(std::int64_t step) const {
  const DeviceBuffer& pixels = pixels_[static_cast<std::size_t>(step % 2)];
  return {static_cast<float*>(pixels.data()),
          static_cast<std::size_t>(pixels.size().count()) / sizeof(float)};
}

void Loader::BeginReading(std::int64_t step) {
  ahead_ = step;
  numbers_ = order_.Images(step, first_, batch_);
  const auto readers =
      std::clamp<std::int64_t>(batch_.count() / kImagesOfReader, 1, readers_);
  float* to = PixelsOf(step).data();
  auto begin = numbers_.cbegin();
  for (const BatchSize share :
       EvenShares(batch_, static_cast<std::size_t>(readers))) {
    const std::span<const std::int64_t> part(begin, begin + share.count());
    reading_.push_back(std::async(std::launch::async, [this, part, to] {
      float* pixels = to;
      for (const std::int64_t image : part) {
        data_.Read(image, pixels);
        pixels += data_.extent().elements();
      }
    }));
    begin += share.count();
    to += share.count() * data_.extent().elements();
  }
}

Loader::Images Loader::Load(std::int64_t step, bool is_last) {
  if (ahead_ != step) {
    reading_.clear();
    BeginReading(step);
  }
  for (std::future<void>& part : reading_) part.get();
  reading_.clear();
  Images images;
  images.pixels = PixelsOf(step);
  for (const std::int64_t image : numbers_) {
    images.labels.push_back(data_.Label(image));
  }
  ahead_ = -1;
  if (!is_last) BeginReading(step + 1);
  return images;
}

}  // namespace ucudnn::train
