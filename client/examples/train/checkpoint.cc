#include "client/examples/train/checkpoint.h"

#include <zlib.h>

#include <bit>
#include <cstring>

#include "base/text.h"

namespace ucudnn::train {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "uctrain1";
constexpr std::size_t kHeader = 32;
constexpr std::size_t kChecksum = 4;

template <class T>
void Append(std::string* text, const T* values, std::size_t count) {
  text->append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

template <class T>
T ReadAt(std::string_view text, std::size_t offset) {
  T value;
  std::memcpy(&value, text.data() + offset, sizeof value);
  return value;
}

std::uint32_t Crc(std::string_view text) {
  return static_cast<std::uint32_t>(crc32_z(
      0, reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

}  // namespace

std::string Encode(const Checkpoint& checkpoint) {
  const Parameters::State& state = checkpoint.state;
  const std::uint64_t count = state.filters.size();
  std::string text(kMagic);
  text.reserve(kHeader + 2 * count * sizeof(float) + kChecksum);
  Append(&text, &checkpoint.steps, 1);
  Append(&text, &checkpoint.job, 1);
  Append(&text, &count, 1);
  Append(&text, state.filters.data(), count);
  Append(&text, state.velocities.data(), count);
  const std::uint32_t crc = Crc(text);
  Append(&text, &crc, 1);
  return text;
}

Result<Checkpoint> DecodeCheckpoint(std::string_view text,
                                    std::string_view source) {
  const std::string name = Excerpt(source);
  if (!text.starts_with(kMagic)) {
    return Fail(Code::kInvalidArgument,
                "{}: offset 0: '{}'; '{}' is expected, a checkpoint of "
                "ucudnn-train",
                name, Excerpt(text.substr(0, kMagic.size())), kMagic);
  }
  if (text.size() < kHeader + kChecksum) {
    return Fail(Code::kDataLoss,
                "{}: offset {}: the file ends; at least {} bytes are expected",
                name, text.size(), kHeader + kChecksum);
  }
  const auto count = ReadAt<std::uint64_t>(text, 24);
  const std::size_t room = text.size() - kHeader - kChecksum;
  if (room % (2 * sizeof(float)) != 0 || room / (2 * sizeof(float)) != count) {
    return Fail(Code::kDataLoss,
                "{}: offset 24: {} parameters, but {} bytes follow for them; 8 "
                "for each are expected",
                name, count, room);
  }
  const std::size_t end = text.size() - kChecksum;
  const auto crc = ReadAt<std::uint32_t>(text, end);
  const std::uint32_t expected = Crc(text.substr(0, end));
  if (crc != expected) {
    return Fail(Code::kDataLoss,
                "{}: offset {}: checksum 0x{:08x}; 0x{:08x} is expected for "
                "what comes before: the file is damaged",
                name, end, crc, expected);
  }
  Checkpoint checkpoint;
  checkpoint.steps = ReadAt<std::int64_t>(text, 8);
  checkpoint.job = ReadAt<std::uint64_t>(text, 16);
  if (checkpoint.steps < 0) {
    return Fail(Code::kDataLoss,
                "{}: offset 8: {} steps; 0 or more are expected", name,
                checkpoint.steps);
  }
  const std::size_t bytes = count * sizeof(float);
  for (auto* values :
       {&checkpoint.state.filters, &checkpoint.state.velocities}) {
    values->resize(count);
    const std::size_t offset =
        values == &checkpoint.state.filters ? kHeader : kHeader + bytes;
    if (bytes > 0) std::memcpy(values->data(), text.data() + offset, bytes);
  }
  return checkpoint;
}

}  // namespace ucudnn::train
