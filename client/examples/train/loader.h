#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_LOADER_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_LOADER_H_

// Reads a rank's images of each step while the step before is computed, with
// several threads. Belongs to one thread.

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

  // With up to so many threads, at least one; `data` outlives the loader.
  Loader(const Dataset& data, Order order, int readers)
      : data_(data), order_(std::move(order)), readers_(readers) {}
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The images are those at [first, first + batch) of each mini-batch from here
  // on. Has room for those of two steps, in memory of the host that `device`
  // loads from fastest; it outlives the loader. kResourceExhausted without
  // memory.
  Status SetShare(Device& device, BatchSize first, BatchSize batch);

  // The images of `step`, until the next call; waits for them. Begins to read
  // those of the next step, if there is to be one.
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
  // What is being read, and where to; these wait when they are destroyed.
  std::int64_t ahead_ = -1;  // the step; none
  std::vector<std::int64_t> numbers_;
  std::vector<std::future<void>> reading_;
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_LOADER_H_
