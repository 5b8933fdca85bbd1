#include "client/dropin/wire/grpc_status.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::size_t kMaxMessage = 1024;

// Reads a block of headers from its beginning; nullopt where it is cut short.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view block) : block_(block) {}

  bool AtEnd() const { return block_.empty(); }
  unsigned char First() const { return static_cast<unsigned char>(block_[0]); }

  // An integer whose first `bits` bits are the last ones of the next byte.
  std::optional<std::uint32_t> Number(int bits) {
    const std::uint32_t most = (1U << bits) - 1;
    if (block_.empty()) return std::nullopt;
    std::uint32_t value = Take() & most;
    if (value < most) return value;
    for (int shift = 0; shift < 28; shift += 7) {
      if (block_.empty()) return std::nullopt;
      const std::uint32_t byte = Take();
      value += (byte & 0x7fU) << shift;
      if (byte < 128) return value;
    }
    return std::nullopt;
  }

  // A string; empty if it is Huffman-coded.
  std::optional<std::string_view> String() {
    if (block_.empty()) return std::nullopt;
    const bool is_coded = (First() & 0x80U) != 0;
    const auto size = Number(7);
    if (!size || *size > block_.size()) return std::nullopt;
    const std::string_view text = block_.substr(0, *size);
    block_.remove_prefix(*size);
    return is_coded ? std::string_view() : text;
  }

 private:
  unsigned char Take() {
    const unsigned char first = First();
    block_.remove_prefix(1);
    return first;
  }

  std::string_view block_;
};

Code ParseCode(std::string_view text) {
  int value = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0 ||
      value > static_cast<int>(Code::kUnauthenticated)) {
    return Code::kUnknown;
  }
  return static_cast<Code>(value);
}

// gRPC sends characters beyond ASCII as %XX.
std::string Unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const std::string_view hex = text.substr(i).substr(0, 3);
    if (hex.size() == 3 && hex[0] == '%' &&
        std::from_chars(hex.data() + 1, hex.data() + 3, byte, 16).ptr ==
            hex.data() + 3) {
      plain.push_back(static_cast<char>(byte));
      i += 2;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

}  // namespace

void ReadGrpcStatus(std::string_view block, GrpcStatus* status) {
  HeaderReader reader(block);
  while (!reader.AtEnd()) {
    const unsigned first = reader.First();
    if ((first & 0x80U) != 0 || (first & 0xe0U) == 0x20U) {
      // A header of the table, or a change of the table's size.
      if (!reader.Number((first & 0x80U) != 0 ? 7 : 5)) return;
      continue;
    }
    const auto index = reader.Number((first & 0x40U) != 0 ? 6 : 4);
    if (!index) return;
    const auto name = *index == 0 ? reader.String() : std::string_view();
    const auto value = name ? reader.String() : std::nullopt;
    if (!value) return;
    if (*name == "grpc-status") status->code = ParseCode(*value);
    if (*name == "grpc-message") {
      status->message = Excerpt(Unescape(*value), kMaxMessage);
    }
  }
}

}  // namespace ucudnn
