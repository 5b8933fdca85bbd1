#include "client/train/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/text.h"

namespace ucudnn::train {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "uctrain2";
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

// The parameters in the order of their names, which does not depend on how many
// ranks train.
std::vector<std::size_t> Ordered(const TrainingGraph& graph,
                                 const Parameters& parameters) {
  std::vector<std::size_t> blocks;
  for (const auto& [block, values] : parameters) blocks.push_back(block);
  std::ranges::sort(blocks, {}, [&](std::size_t block) -> const std::string& {
    return graph.blocks[block].name;
  });
  return blocks;
}

}  // namespace

std::vector<float> ValuesOf(const TrainingGraph& graph,
                            const Parameters& parameters) {
  std::vector<float> values;
  for (const std::size_t block : Ordered(graph, parameters)) {
    const std::vector<float>& more = parameters.at(block);
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

bool SetValues(const TrainingGraph& graph, std::span<const float> values,
               Parameters* parameters) {
  std::size_t count = 0;
  for (const auto& [block, old] : *parameters) count += old.size();
  if (count != values.size()) return false;
  auto from = values.begin();
  for (const std::size_t block : Ordered(graph, *parameters)) {
    std::vector<float>& to = parameters->at(block);
    std::copy_n(from, to.size(), to.begin());
    from += std::ssize(to);
  }
  return true;
}

std::string Encode(const Checkpoint& checkpoint) {
  const std::uint64_t count = checkpoint.values.size();
  std::string text(kMagic);
  text.reserve(kHeader + count * sizeof(float) + kChecksum);
  Append(&text, &checkpoint.steps, 1);
  Append(&text, &checkpoint.job, 1);
  Append(&text, &count, 1);
  Append(&text, checkpoint.values.data(), count);
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
  if (room % sizeof(float) != 0 || room / sizeof(float) != count) {
    return Fail(Code::kDataLoss,
                "{}: offset 24: {} values, but {} bytes follow for them; 4 for "
                "each are expected",
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
  checkpoint.values.resize(count);
  if (count > 0) {
    std::memcpy(checkpoint.values.data(), text.data() + kHeader,
                count * sizeof(float));
  }
  return checkpoint;
}

}  // namespace ucudnn::train
