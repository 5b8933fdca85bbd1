#include "base/text.h"

#include <fmt/format.h>

#include <iterator>

namespace ucudnn {
namespace {

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// The length of the plain character that `text` starts with; 0 if it starts
// with none.
std::size_t PlainCharacter(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) {
    return first == '\t' || (first >= 0x20 && first != 0x7F) ? 1 : 0;
  }
  const std::size_t length = Utf8Length(text);
  // The control characters from 0x80 to 0x9F.
  const bool control = length == 2 && first == 0xC2 &&
                       static_cast<unsigned char>(text[1]) < 0xA0;
  return control ? 0 : length;
}

}  // namespace

std::size_t Utf8Length(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!IsContinuation(byte(i))) return 0;
  }
  // Over-long forms, surrogates, code points beyond 0x10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

bool IsPlainText(std::string_view text) {
  // Nearly all text is printable ASCII, which one pass without branches
  // detects.
  unsigned unusual = 0;
  for (const char c : text) {
    unusual |= unsigned{static_cast<unsigned char>(c - 0x20) >= 0x7F - 0x20};
  }
  if (unusual == 0) return true;
  while (!text.empty()) {
    const std::size_t length = PlainCharacter(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string Excerpt(std::string_view text, std::size_t max_bytes) {
  std::string shown;
  std::size_t taken = 0;
  while (taken < text.size()) {
    const std::string_view rest = text.substr(taken);
    const std::size_t length = PlainCharacter(rest);
    const std::size_t step = length == 0 ? 1 : length;
    if (taken + step > max_bytes) return shown + "...";
    if (length == 0) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02X}",
                     static_cast<unsigned char>(rest.front()));
    } else {
      shown += rest.substr(0, length);
    }
    taken += step;
  }
  return shown;
}

}  // namespace ucudnn
