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

void Loader::BeginReading(std::int64_t step) {
  ahead_ = step;
  numbers_ = order_.Images(step, first_, batch_);
  const auto readers =
      std::clamp<std::int64_t>(batch_.count() / kImagesOfReader, 1, readers_);
  float* to = BatchOf(step).images.data();
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

const TrainingBatch& Loader::Load(std::int64_t step, bool is_last) {
  if (ahead_ != step) {
    reading_.clear();
    BeginReading(step);
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
  if (!is_last) BeginReading(step + 1);
  return batch;
}

}  // namespace ucudnn::train
