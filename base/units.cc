#include "base/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr double kTwoTo62 = 4611686018427387904.0;

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array kUnits = {
    Unit{"B", 1},
    Unit{"KiB", std::int64_t{1} << 10},
    Unit{"MiB", std::int64_t{1} << 20},
    Unit{"GiB", std::int64_t{1} << 30},
    Unit{"TiB", std::int64_t{1} << 40},
    Unit{"KB", 1'000},
    Unit{"MB", 1'000'000},
    Unit{"GB", 1'000'000'000},
    Unit{"TB", 1'000'000'000'000},
};

// In any case, and Kubernetes' "Mi" for "MiB"; "M" is 1000 * 1000 there and
// 1024 * 1024 elsewhere.
bool IsUnit(std::string_view name, std::string_view text) {
  if (text.size() == 2 && name.size() == 3) name.remove_suffix(1);
  return std::ranges::equal(name, text, [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  });
}

// Parses all of `text` as a finite double; false if it is none.
bool ParseDouble(std::string_view text, double* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end && std::isfinite(*value);
}

}  // namespace

Result<Bytes> ParseBytes(std::string_view text) {
  const auto bad = [&] {
    return Fail(Code::kInvalidArgument,
                "'{}' is not a size; write plain bytes or a unit such as "
                "8MiB or 1.5GiB",
                Excerpt(text));
  };
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  std::string_view unit =
      digits == std::string_view::npos ? "" : text.substr(digits);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (number.empty()) return bad();
  std::int64_t scale = 1;
  if (!unit.empty()) {
    scale = 0;
    for (const Unit& known : kUnits) {
      if (IsUnit(known.name, unit)) scale = known.bytes;
    }
    if (scale == 0) return bad();
  }
  const auto too_large = [&] {
    return Fail(Code::kOutOfRange, "'{}' is larger than 4 EiB", Excerpt(text));
  };
  const std::size_t point = number.find('.');
  const std::string_view fraction =
      point == std::string_view::npos ? "0" : number.substr(point + 1);
  const std::string_view before = number.substr(0, point);
  std::int64_t whole = 0;
  const auto [stop, error] =
      std::from_chars(before.data(), before.data() + before.size(), whole);
  if (error == std::errc::result_out_of_range) return too_large();
  if (error != std::errc() || fraction.empty() ||
      fraction.find('.') != std::string_view::npos ||
      (scale == 1 &&
       fraction.find_first_not_of('0') != std::string_view::npos)) {
    return bad();
  }
  // Digit by digit, rounded down, which is exact: a double is not.
  std::int64_t part = 0;
  for (std::size_t i = fraction.size(); i-- > 0;) {
    part = ((fraction[i] - '0') * scale + part) / 10;
  }
  if (whole > (kMaxCount - part) / scale) return too_large();
  return Bytes(whole * scale + part);
}

std::string FormatBytes(Bytes bytes) {
  for (std::size_t i = 4; i > 0; --i) {
    const Unit& unit = kUnits[i];
    if (bytes.count() != 0 && bytes.count() % unit.bytes == 0) {
      return fmt::format("{}{}", bytes.count() / unit.bytes, unit.name);
    }
  }
  return fmt::format("{}", bytes.count());
}

std::string HumanBytes(Bytes bytes) {
  std::size_t i = 0;
  while (i < 4 && bytes.count() >= kUnits[i + 1].bytes) ++i;
  if (i == 0) return fmt::format("{} B", bytes.count());
  const double value =
      static_cast<double>(bytes.count()) / static_cast<double>(kUnits[i].bytes);
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[i].name);
}

Result<std::int64_t> ParseInteger(std::string_view text, std::int64_t min,
                                  std::int64_t max) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < min || value > max) {
    return Fail(Code::kInvalidArgument,
                "'{}' is not a whole number from {} to {}", Excerpt(text), min,
                max);
  }
  return value;
}

Result<Nanoseconds> ParseMicroseconds(std::string_view text) {
  double us = 0;
  if (!ParseDouble(text, &us)) {
    return Fail(Code::kInvalidArgument,
                "'{}' is not a time; a finite number of microseconds is "
                "accepted",
                Excerpt(text));
  }
  return FromMicroseconds(us);
}

Result<Nanoseconds> ParseMilliseconds(std::string_view text) {
  double ms = 0;
  if (!ParseDouble(text, &ms) || ms < 0) {
    return Fail(Code::kInvalidArgument,
                "'{}' is not a time; a finite number of milliseconds from 0 on "
                "is accepted",
                Excerpt(text));
  }
  const double ns = std::nearbyint(ms * 1e6);
  if (ns > kTwoTo62) {
    return Fail(Code::kOutOfRange, "'{}' ms is longer than 146 years",
                Excerpt(text));
  }
  return Nanoseconds(static_cast<std::int64_t>(ns));
}

std::string FormatMicroseconds(Nanoseconds time) {
  const std::int64_t ns = time.count();
  std::string text = fmt::format("{}", ns / 1000);
  if (ns % 1000 != 0) {
    text += fmt::format(".{:03}", ns % 1000);
    while (text.back() == '0') text.pop_back();
  }
  return text;
}

Result<Nanoseconds> FromMicroseconds(double us) {
  if (!std::isfinite(us) || us < 0) {
    return Fail(Code::kInvalidArgument,
                "{} is not a time; a finite number of microseconds from 0 on "
                "is accepted",
                us);
  }
  const double ns = std::nearbyint(us * 1e3);
  if (ns > kTwoTo62) {
    return Fail(Code::kOutOfRange, "{} us is longer than 146 years", us);
  }
  return Nanoseconds(static_cast<std::int64_t>(ns));
}

std::string HumanTime(Nanoseconds time) {
  const double ns = static_cast<double>(time.count());
  const auto print = [](double value, std::string_view unit) {
    const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
  };
  if (ns < 1e3) return fmt::format("{} ns", time.count());
  if (ns < 1e6) return print(ns / 1e3, "us");
  if (ns < 1e9) return print(ns / 1e6, "ms");
  return print(ns / 1e9, "s");
}

}  // namespace ucudnn
