#ifndef UCUDNN_CLIENT_TRAIN_DATA_H_
#define UCUDNN_CLIENT_TRAIN_DATA_H_

// Labelled images in memory, and the order in which training uses them.
// Deterministic for a seed; only reading files has side effects.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "device/operators/operators.h"

namespace ucudnn::train {

// "3x32x32".
std::string ToString(const ImageExtent& extent);

class Dataset {
 public:
  Dataset(const ImageExtent& extent, std::int64_t classes)
      : extent_(extent), classes_(classes) {}
  virtual ~Dataset() = default;
  const ImageExtent& extent() const { return extent_; }
  std::int64_t classes() const { return classes_; }
  virtual std::int64_t size() const = 0;
  virtual std::int64_t Label(std::int64_t image) const = 0;
  // Writes extent().elements() numbers of about unit magnitude, in the order
  // channel, row, column.
  virtual void Read(std::int64_t image, float* pixels) const = 0;

 private:
  ImageExtent extent_;
  std::int64_t classes_;
};

// Images as bytes, as in the files.
class StoredImages : public Dataset {
 public:
  using Dataset::Dataset;

  std::int64_t size() const override { return std::ssize(labels_); }
  std::int64_t Label(std::int64_t image) const override;
  void Read(std::int64_t image, float* pixels) const override;

  // `pixels` holds one or more consecutive images, one for each label.
  void Append(std::string_view pixels, std::string_view labels);

 private:
  std::vector<unsigned char> labels_;
  std::string pixels_;
};

// Parses MNIST's idx format: images and labels as unsigned bytes. The sources
// name the texts in errors, which give the offset, the value found and the
// value expected. kInvalidArgument: another magic number, an extent of 0 or
// above 4096, a size other than the header's, a label above 9, or different
// numbers of labels and images.
Result<StoredImages> ParseMnist(std::string_view images,
                                std::string_view images_source,
                                std::string_view labels,
                                std::string_view labels_source);

// Parses CIFAR-10's binary format: records of a label and 3072 bytes (red,
// green, blue). Appends the images to `into`. kInvalidArgument: an incomplete
// record, or a label above 9, with its offset.
Status ParseCifar10(std::string_view text, std::string_view source,
                    StoredImages* into);
// An empty set for ParseCifar10 to append to.
StoredImages NoCifar10Images();

// Read `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, or those of
// `data_batch_1.bin` to `data_batch_5.bin` that exist, from `folder`; what is
// held out for evaluation from `t10k-*` or `test_batch.bin`. Files may be
// gzipped, with the suffix .gz. Errors as above, and of ReadFile
// (base/files/file.h).
Result<StoredImages> ReadMnist(const std::string& folder,
                               bool held_out = false);
Result<StoredImages> ReadCifar10(const std::string& folder,
                                 bool held_out = false);

// Generated images: a pattern for each class, plus noise. Those from `first` on
// of all that there are.
class SyntheticImages : public Dataset {
 public:
  SyntheticImages(const ImageExtent& extent, std::int64_t classes,
                  std::int64_t size, std::uint64_t seed, std::int64_t first = 0)
      : Dataset(extent, classes), size_(size), seed_(seed), first_(first) {}

  std::int64_t size() const override { return size_; }
  std::int64_t Label(std::int64_t image) const override;
  void Read(std::int64_t image, float* pixels) const override;

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  std::int64_t first_;
};

// Which images a step trains on: those of its mini-batch, in order. Each epoch
// shuffles the images anew and leaves out those after its last whole
// mini-batch.
class Order {
 public:
  // kInvalidArgument if the mini-batch is larger than the data set.
  static Result<Order> Create(std::int64_t images, BatchSize batch,
                              std::uint64_t seed);

  std::int64_t steps_per_epoch() const { return images_ / batch_; }
  // The images at [first, first + count) in the mini-batch of `step`, counted
  // from 0. O(images) at the start of an epoch.
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

#endif  // UCUDNN_CLIENT_TRAIN_DATA_H_
