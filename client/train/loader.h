#ifndef UCUDNN_CLIENT_TRAIN_LOADER_H_
#define UCUDNN_CLIENT_TRAIN_LOADER_H_

// Reads a rank's images of the next step, on several threads, while the current
// step is computed. Used by one thread at a time.

#include <array>
#include <cstdint>
#include <future>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "client/train/data.h"
#include "client/training/image_parts.h"
#include "client/training/memory_executor.h"

namespace ucudnn::train {

class Loader {
 public:
  // Uses up to `readers` threads, at least one. `data` must outlive the loader.
  Loader(const Dataset& data, Order order, int readers)
      : data_(data), order_(std::move(order)), readers_(readers) {}
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // From now on, the rank's images are those at [first, first + batch) of each
  // mini-batch, and the steps' come into `batches` in turn
  // (MemoryExecutor::MakeBatch), which have room for their parts. Every pixel
  // of the network's output has its image's label.
  void SetShare(std::array<TrainingBatch, 2> batches, BatchSize first,
                BatchSize batch);

  // Waits for these parts of the images of `step`, which are valid until the
  // next call. Starts reading those of the next step, if there is one.
  const TrainingBatch& Load(std::int64_t step,
                            const std::vector<ImagePart>& parts,
                            const std::vector<ImagePart>* next);

 private:
  void BeginReading(std::int64_t step, const std::vector<ImagePart>& parts);
  void Read(std::span<const std::int64_t> images, std::int64_t first,
            float* to) const;
  TrainingBatch& BatchOf(std::int64_t step) {
    return batches_[static_cast<std::size_t>(step % 2)];
  }

  const Dataset& data_;
  Order order_;
  const int readers_;
  BatchSize first_;
  BatchSize batch_;
  std::array<TrainingBatch, 2> batches_;
  // The step being read, and its buffers. The futures wait when destroyed.
  std::int64_t ahead_ = -1;            // the step; -1: none
  std::vector<std::int64_t> numbers_;  // of its images
  std::vector<ImagePart> parts_;
  std::vector<std::future<void>> reading_;
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_LOADER_H_
