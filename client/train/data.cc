#include "client/train/data.h"

#include <numeric>
#include <utility>

namespace ucudnn::train {
namespace {

// SplitMix64: random numbers that are the same on every machine and can start
// anywhere in the sequence.
class Random {
 public:
  // Streams with different numbers are independent.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0)
      : state_(Mix(seed) ^ Mix(stream + 0x632be59bd9b4e019U)) {}

  std::uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15U); }
  // A number in [0, n), for n far below 2^64.
  std::uint64_t Below(std::uint64_t n) { return Next() % n; }
  // A number in [-1, 1), a multiple of 2^-23.
  float Unit() {
    return static_cast<float>(static_cast<std::int64_t>(Next() >> 40) -
                              (std::int64_t{1} << 23)) *
           0x1p-23F;
  }

 private:
  static std::uint64_t Mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

// Random streams for different purposes must not overlap.
constexpr std::uint64_t kPatterns = std::uint64_t{1} << 62;
constexpr std::uint64_t kOrders = std::uint64_t{2} << 62;

}  // namespace

std::string ToString(const ImageExtent& extent) {
  return extent.depth > 1
             ? fmt::format("{}x{}x{}x{}", extent.channels, extent.depth,
                           extent.height, extent.width)
             : fmt::format("{}x{}x{}", extent.channels, extent.height,
                           extent.width);
}

std::int64_t StoredImages::Label(std::int64_t image) const {
  return labels_[static_cast<std::size_t>(image)];
}

void StoredImages::Read(std::int64_t image, float* pixels) const {
  const auto elements = static_cast<std::size_t>(extent().elements());
  const char* bytes =
      pixels_.data() + static_cast<std::size_t>(image) * elements;
  for (std::size_t i = 0; i < elements; ++i) {
    // Maps 0..255 to -1..1.
    pixels[i] =
        static_cast<float>(static_cast<unsigned char>(bytes[i])) / 127.5F - 1;
  }
}

void StoredImages::Append(std::string_view pixels, std::string_view labels) {
  pixels_.append(pixels);
  for (const char label : labels) {
    labels_.push_back(static_cast<unsigned char>(label));
  }
}

std::int64_t SyntheticImages::Label(std::int64_t image) const {
  return (first_ + image) % classes();
}

void SyntheticImages::Read(std::int64_t image, float* pixels) const {
  Random pattern(seed_, kPatterns + static_cast<std::uint64_t>(Label(image)));
  Random noise(seed_, static_cast<std::uint64_t>(first_ + image));
  for (std::int64_t i = 0; i < extent().elements(); ++i) {
    pixels[i] = 0.5F * pattern.Unit() + noise.Unit();
  }
}

Result<Order> Order::Create(std::int64_t images, BatchSize batch,
                            std::uint64_t seed) {
  if (batch.count() > images) {
    return Fail(Code::kInvalidArgument,
                "a mini-batch of {}, but there are only {} images",
                batch.count(), images);
  }
  return Order(images, batch, seed);
}

std::vector<std::int64_t> Order::Images(std::int64_t step, BatchSize first,
                                        BatchSize count) {
  const std::int64_t epoch = step / steps_per_epoch();
  if (epoch != epoch_) {
    order_.resize(static_cast<std::size_t>(images_));
    std::iota(order_.begin(), order_.end(), 0);
    Random random(seed_, kOrders + static_cast<std::uint64_t>(epoch));
    for (std::size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1], order_[random.Below(i)]);
    }
    epoch_ = epoch;
  }
  const auto begin =
      order_.begin() + static_cast<std::ptrdiff_t>(
                           step % steps_per_epoch() * batch_ + first.count());
  return {begin, begin + static_cast<std::ptrdiff_t>(count.count())};
}

}  // namespace ucudnn::train
