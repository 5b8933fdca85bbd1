// Reads MNIST and CIFAR-10 files.

#include <array>
#include <utility>

#include "base/files/file.h"
#include "base/text.h"
#include "client/train/data.h"

namespace ucudnn::train {
namespace {

constexpr Bytes kMaxFile = 4_GiB;
constexpr std::int64_t kMaxExtent = 4096;
constexpr std::int64_t kClasses = 10;

// An idx file: two zero bytes, the type, the number of dimensions, and each
// dimension as four big-endian bytes.
class Idx {
 public:
  Idx(std::string_view text, std::string_view source)
      : text_(text), source_(Excerpt(source)) {}

  template <std::size_t n>
  Result<std::array<std::int64_t, n>> Dimensions() const {
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t magic, Number(0));
    constexpr std::int64_t kBytes = 0x0800;
    if (magic != kBytes + std::int64_t{n}) {
      return Fail(Code::kInvalidArgument,
                  "{}: offset 0: 0x{:08x}; 0x{:08x} is expected, an idx file "
                  "of bytes in {} dimension{}",
                  source_, magic, kBytes + std::int64_t{n}, n,
                  n == 1 ? "" : "s");
    }
    std::array<std::int64_t, n> dimensions{};
    std::int64_t size = 1;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t offset = 4 + 4 * i;
      UCUDNN_ASSIGN_OR_RETURN(dimensions[i], Number(offset));
      const std::int64_t most = i == 0 ? kMaxBatchSize.count() : kMaxExtent;
      if (dimensions[i] < 1 || dimensions[i] > most) {
        return Fail(Code::kInvalidArgument,
                    "{}: offset {}: {}; 1 to {} is accepted for dimension {}",
                    source_, offset, dimensions[i], most, i + 1);
      }
      size *= dimensions[i];
    }
    if (std::ssize(Data<n>()) != size) {
      return Fail(Code::kInvalidArgument,
                  "{}: offset {}: {} bytes follow; the dimensions before want "
                  "{}",
                  source_, 4 + 4 * n, Data<n>().size(), size);
    }
    return dimensions;
  }

  // The data after the header; empty if the header is incomplete.
  template <std::size_t n>
  std::string_view Data() const {
    constexpr std::size_t kBefore = 4 + 4 * n;
    return text_.size() < kBefore ? "" : text_.substr(kBefore);
  }

  const std::string& source() const { return source_; }

 private:
  Result<std::int64_t> Number(std::size_t offset) const {
    if (text_.size() < offset + 4) {
      return Fail(Code::kInvalidArgument,
                  "{}: offset {}: the file ends after {} bytes; a number of 4 "
                  "bytes is expected",
                  source_, offset, text_.size());
    }
    std::int64_t number = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      number = number << 8 | static_cast<unsigned char>(text_[offset + i]);
    }
    return number;
  }

  std::string_view text_;
  std::string source_;
};

Status CheckLabel(unsigned char label, std::string_view source,
                  std::size_t offset) {
  if (label < kClasses) return {};
  return Fail(Code::kInvalidArgument,
              "{}: offset {}: label {}; 0 to {} is accepted", source, offset,
              label, kClasses - 1);
}

// Reads `path` or, if it does not exist, `path` with .gz appended.
Result<std::string> ReadEither(const std::string& path) {
  auto plain = ReadFile(path, kMaxFile);
  if (plain || plain.error().code != Code::kNotFound) return plain;
  auto packed = ReadFile(path + ".gz", kMaxFile);
  if (packed || packed.error().code != Code::kNotFound) return packed;
  return plain;
}

}  // namespace

Result<StoredImages> ParseMnist(std::string_view images,
                                std::string_view images_source,
                                std::string_view labels,
                                std::string_view labels_source) {
  const Idx image_file(images, images_source);
  const Idx label_file(labels, labels_source);
  UCUDNN_ASSIGN_OR_RETURN(const auto extent, image_file.Dimensions<3>());
  UCUDNN_ASSIGN_OR_RETURN(const auto count, label_file.Dimensions<1>());
  if (count[0] != extent[0]) {
    return Fail(Code::kInvalidArgument,
                "{}: offset 4: {} labels; {} are expected, one for each image "
                "of {}",
                label_file.source(), count[0], extent[0], image_file.source());
  }
  const std::string_view values = label_file.Data<1>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(CheckLabel(static_cast<unsigned char>(values[i]),
                                      label_file.source(), 8 + i));
  }
  StoredImages result({1, extent[1], extent[2]}, kClasses);
  result.Append(image_file.Data<3>(), values);
  return result;
}

StoredImages NoCifar10Images() { return {{3, 32, 32}, kClasses}; }

Status ParseCifar10(std::string_view text, std::string_view source,
                    StoredImages* into) {
  const auto pixels = static_cast<std::size_t>(into->extent().elements());
  const std::size_t record = 1 + pixels;
  if (text.empty() || text.size() % record != 0) {
    return Fail(Code::kInvalidArgument,
                "{}: offset {}: the file ends {} bytes into a record; whole "
                "records of {} bytes are expected",
                Excerpt(source), text.size(), text.size() % record, record);
  }
  for (std::size_t at = 0; at < text.size(); at += record) {
    UCUDNN_RETURN_IF_ERROR(
        CheckLabel(static_cast<unsigned char>(text[at]), Excerpt(source), at));
  }
  for (std::size_t at = 0; at < text.size(); at += record) {
    into->Append(text.substr(at + 1, pixels), text.substr(at, 1));
  }
  return {};
}

Result<StoredImages> ReadMnist(const std::string& folder, bool held_out) {
  const std::string set = folder + (held_out ? "/t10k" : "/train");
  const std::string images = set + "-images-idx3-ubyte";
  const std::string labels = set + "-labels-idx1-ubyte";
  UCUDNN_ASSIGN_OR_RETURN(const std::string image_text, ReadEither(images));
  UCUDNN_ASSIGN_OR_RETURN(const std::string label_text, ReadEither(labels));
  return ParseMnist(image_text, images, label_text, labels);
}

Result<StoredImages> ReadCifar10(const std::string& folder, bool held_out) {
  StoredImages images = NoCifar10Images();
  for (int i = 1; i <= (held_out ? 1 : 5); ++i) {
    const std::string path =
        held_out ? folder + "/test_batch.bin"
                 : fmt::format("{}/data_batch_{}.bin", folder, i);
    const auto text = ReadEither(path);
    if (!text && text.error().code == Code::kNotFound && images.size() > 0) {
      break;
    }
    if (!text) return tl::unexpected<Error>(text.error());
    UCUDNN_RETURN_IF_ERROR(ParseCifar10(*text, path, &images));
  }
  return images;
}

}  // namespace ucudnn::train
