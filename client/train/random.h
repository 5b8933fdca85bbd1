#ifndef UCUDNN_CLIENT_TRAIN_RANDOM_H_
#define UCUDNN_CLIENT_TRAIN_RANDOM_H_

// SplitMix64: random numbers that are the same on every machine and can start
// anywhere in the sequence.

#include <cstdint>

namespace ucudnn::train {

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

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_RANDOM_H_
