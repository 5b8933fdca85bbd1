#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_LOADER_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_LOADER_H_

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
#include "client/examples/train/data.h"
#include "device/device.h"

namespace ucudnn::train {

class Loader {
 public:
  struct Images {
    std::vector<std::int64_t> labels;
    std::span<const float> pixels;  // image by image
  };

  // Uses up to `readers` threads, at least one. `data` must outlive the loader.
  Loader(const Dataset& data, Order order, int readers)
      : data_(data), order_(std::move(order)), readers_(readers) {}
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // From now on, the rank's images are those at [first, first + batch) of each
  // mini-batch. Allocates room for two steps, in the kind of host memory from
  // which `device` copies fastest; `device` must outlive the loader.
  // kResourceExhausted if memory runs out.
  Status SetShare(Device& device, BatchSize first, BatchSize batch);

  // Waits for the images of `step`, which are valid until the next call. Starts
  // reading the next step's, unless this is the last one.
  Images Load(std::int64_t step, bool is_last);

 private:
  void BeginReading(std::int64_t step);
  std::span<float> PixelsOf(std::int64_t step) const;

  const Dataset& data_;
  Order order_;
  const int readers_;
  BatchSize first_;
  BatchSize batch_;
  std::array<DeviceBuffer, 2> pixels_;
  // The step being read, and its buffers. The futures wait when destroyed.
  std::int64_t ahead_ = -1;  // the step; -1: none
  std::vector<std::int64_t> numbers_;
  std::vector<std::future<void>> reading_;
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_LOADER_H_
