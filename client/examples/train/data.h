#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_DATA_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_DATA_H_

// Labelled images, in memory, and the order in which they are trained on.
// Pure but for the reading of files; the same everywhere for the same seed.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "client/examples/train/net.h"

namespace ucudnn::train {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const Extent& extent() const = 0;
  virtual std::int64_t classes() const = 0;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t Label(std::int64_t image) const = 0;
  // Writes extent().elements() numbers of about unit size, channel by channel,
  // row by row.
  virtual void Read(std::int64_t image, float* pixels) const = 0;
};

// Bytes as they lie in the files.
class StoredImages : public Dataset {
 public:
  StoredImages(const Extent& extent, std::int64_t classes)
      : extent_(extent), classes_(classes) {}

  const Extent& extent() const override { return extent_; }
  std::int64_t classes() const override { return classes_; }
  std::int64_t size() const override { return std::ssize(labels_); }
  std::int64_t Label(std::int64_t image) const override;
  void Read(std::int64_t image, float* pixels) const override;

  // `pixels` are those of one image or of several that follow each other.
  void Append(std::string_view pixels, std::string_view labels);

 private:
  Extent extent_;
  std::int64_t classes_;
  std::vector<unsigned char> labels_;
  std::string pixels_;
};

// MNIST's form, idx: images and labels as unsigned bytes. `source`s name the
// texts in errors, which give the offset, the value there and what is
// expected. kInvalidArgument: another magic number, an extent of 0 or beyond
// 4096, another size than the header tells, a label beyond 9, or not as many
// labels as images.
Result<StoredImages> ParseMnist(std::string_view images,
                                std::string_view images_source,
                                std::string_view labels,
                                std::string_view labels_source);

// CIFAR-10's binary form: records of a label and 3072 bytes, red, green, blue.
// Adds the images to `into`. kInvalidArgument: no whole number of records, or
// a label beyond 9, with its offset.
Status ParseCifar10(std::string_view text, std::string_view source,
                    StoredImages* into);
// What ParseCifar10 adds to.
StoredImages NoCifar10Images();

// Reads `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, or
// `data_batch_1.bin` to `data_batch_5.bin` as far as they are there, from
// `folder`; files may be gzip, then ending in .gz. Errors as above and as
// ReadFile (base/files/file.h) has them.
Result<StoredImages> ReadMnist(const std::string& folder);
Result<StoredImages> ReadCifar10(const std::string& folder);

// Images that nobody took: a pattern for each class, under noise.
class SyntheticImages : public Dataset {
 public:
  SyntheticImages(const Extent& extent, std::int64_t classes, std::int64_t size,
                  std::uint64_t seed);

  const Extent& extent() const override { return extent_; }
  std::int64_t classes() const override { return classes_; }
  std::int64_t size() const override { return size_; }
  std::int64_t Label(std::int64_t image) const override;
  void Read(std::int64_t image, float* pixels) const override;

 private:
  Extent extent_;
  std::int64_t classes_;
  std::int64_t size_;
  std::uint64_t seed_;
};

// Which images a step trains on: those of its mini-batch, in its order. Each
// epoch goes through the images in an order of its own; what is left of them
// after the last whole mini-batch is left out.
class Order {
 public:
  // kInvalidArgument if the mini-batch is larger than the data set.
  static Result<Order> Create(std::int64_t images, BatchSize batch,
                              std::uint64_t seed);

  std::int64_t steps_per_epoch() const { return images_ / batch_; }
  // The images of `step`, counted from 0, that stand at [first, first + count)
  // in the mini-batch. O(images) where a new epoch begins.
  std::vector<std::int64_t> Images(std::int64_t step, BatchSize first,
                                   BatchSize count);

 private:
  Order(std::int64_t images, BatchSize batch, std::uint64_t seed)
      : images_(images), batch_(batch.count()), seed_(seed) {}

  std::int64_t images_;
  std::int64_t batch_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_DATA_H_
