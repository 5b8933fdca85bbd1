#ifndef UCUDNN_BASE_UNITS_H_
#define UCUDNN_BASE_UNITS_H_

// The quantities used everywhere. Bytes and BatchSize are types, so that one is
// never passed for the other; time is std::chrono::nanoseconds internally and
// microseconds with decimals in text.
//
//   const Bytes limit = 64_MiB;
//   limit.count();                 // 67108864
//   FormatBytes(limit);            // "64MiB"
//   ParseMicroseconds("39.104");   // 39104ns

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ucudnn {

using Nanoseconds = std::chrono::nanoseconds;

class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : count_(count) {}
  constexpr std::int64_t count() const { return count_; }
  // More than any device has; safe to compare with, not to add to.
  static constexpr Bytes Max() {
    return Bytes(std::numeric_limits<std::int64_t>::max());
  }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) {
    return Bytes(a.count_ + b.count_);
  }
  friend constexpr Bytes operator-(Bytes a, Bytes b) {
    return Bytes(a.count_ - b.count_);
  }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) {
    return Bytes(a.count_ * n);
  }
  friend constexpr Bytes operator/(Bytes a, std::int64_t n) {
    return Bytes(a.count_ / n);
  }
  constexpr Bytes& operator+=(Bytes b) { return *this = *this + b; }
  constexpr Bytes& operator-=(Bytes b) { return *this = *this - b; }

 private:
  std::int64_t count_ = 0;
};

// The least multiple of `unit` that is not less than `bytes`; `unit` is
// positive.
constexpr Bytes RoundUp(Bytes bytes, Bytes unit) {
  return Bytes((bytes.count() + unit.count() - 1) / unit.count() *
               unit.count());
}

// A number of images: a mini-batch, a micro-batch, or a GPU's share.
class BatchSize {
 public:
  constexpr BatchSize() = default;
  constexpr explicit BatchSize(std::int64_t count) : count_(count) {}
  constexpr std::int64_t count() const { return count_; }

  friend constexpr auto operator<=>(BatchSize, BatchSize) = default;
  friend constexpr BatchSize operator+(BatchSize a, BatchSize b) {
    return BatchSize(a.count_ + b.count_);
  }
  friend constexpr BatchSize operator-(BatchSize a, BatchSize b) {
    return BatchSize(a.count_ - b.count_);
  }

 private:
  std::int64_t count_ = 0;
};

// The largest batch accepted anywhere; keeps every product of sizes in range.
inline constexpr BatchSize kMaxBatchSize{1 << 24};

// For tables with an entry for each batch from 0.
constexpr std::size_t Index(BatchSize batch) {
  return static_cast<std::size_t>(batch.count());
}

// The largest number of bytes, nanoseconds or rows accepted anywhere; the sum
// of two does not overflow.
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 62;

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n));
}
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 20);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 30);
}
}  // namespace literals

// A size as people write it: plain bytes ("1048576"), or a number with a unit
// of 1024 ("8MiB", "1.5GiB", "64 KiB", "8Mi") or of 1000 ("8MB"), in any case,
// rounded down to whole bytes. kInvalidArgument for anything else, also a
// fraction of plain bytes; kOutOfRange beyond 2^62.
Result<Bytes> ParseBytes(std::string_view text);

// The shortest exact text that ParseBytes reads back: "64MiB", "1000".
std::string FormatBytes(Bytes bytes);

// For people: three significant digits, "61.3 MiB".
std::string HumanBytes(Bytes bytes);

// A whole number without sign, spaces or exponent, in [min, max].
// kInvalidArgument otherwise, naming the value and the range.
Result<std::int64_t> ParseInteger(std::string_view text, std::int64_t min,
                                  std::int64_t max);

// Decimal microseconds ("39.104", "1e3") rounded to the nanosecond.
// kInvalidArgument if not a finite number, or negative; kOutOfRange beyond
// 2^62 ns (146 years).
Result<Nanoseconds> ParseMicroseconds(std::string_view text);

// Decimal milliseconds in the same way.
Result<Nanoseconds> ParseMilliseconds(std::string_view text);

// The shortest exact text that ParseMicroseconds reads back: "39.104", "20".
// Exact up to 2^51 ns (26 days), as all times in microseconds are.
std::string FormatMicroseconds(Nanoseconds time);

// The time in microseconds, for JSON numbers and tables.
inline double Microseconds(Nanoseconds time) {
  return static_cast<double>(time.count()) / 1e3;
}

// The whole number of nanoseconds nearest to `us`, as ParseMicroseconds does.
Result<Nanoseconds> FromMicroseconds(double us);

// For people: "39.1 us", "20.5 ms", "1.25 s".
std::string HumanTime(Nanoseconds time);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_UNITS_H_
