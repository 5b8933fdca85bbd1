#include "base/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::string_view kGzipMagic = "\x1F\x8B";

std::string Reason(int error) { return std::generic_category().message(error); }

// An open file, read from its beginning.
class InputFile {
 public:
  explicit InputFile(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~InputFile() {
    if (is_open()) close(descriptor_);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }

  bool is_directory() const {
    struct stat status = {};
    return fstat(descriptor_, &status) == 0 && S_ISDIR(status.st_mode);
  }

  // The next bytes, valid until the next call; empty at the end.
  Result<std::string_view> Read() {
    while (true) {
      const ssize_t n = read(descriptor_, buffer_.data(), buffer_.size());
      if (n >= 0) return std::string_view(buffer_.data(), std::size_t(n));
      if (errno != EINTR) {
        return Fail(Code::kDataLoss, "it cannot be read: {}", Reason(errno));
      }
    }
  }

 private:
  int descriptor_;
  std::array<char, std::size_t{1} << 16> buffer_;
};

// A file's contents, up to a limit.
class Contents {
 public:
  explicit Contents(Bytes max_size) : max_size_(max_size) {}

  Status Append(std::string_view bytes) {
    if (bytes.size() > std::size_t(max_size_.count()) - text_.size()) {
      return Fail(Code::kResourceExhausted,
                  "it is larger than {}, the most accepted here",
                  FormatBytes(max_size_));
    }
    text_ += bytes;
    return {};
  }
  std::string Take() { return std::move(text_); }

 private:
  Bytes max_size_;
  std::string text_;
};

// Decompresses gzip members, one after the other as gzip itself does.
class Gunzip {
 public:
  Gunzip() { state_ = inflateInit2(&stream_, 16 + MAX_WBITS); }
  ~Gunzip() { inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  Status Feed(std::string_view bytes, Contents* contents) {
    std::array<char, std::size_t{1} << 16> out;
    // zlib does not write to its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    while (stream_.avail_in > 0) {
      if (state_ == Z_STREAM_END) {
        // Another member follows, or zero padding.
        if (*stream_.next_in == 0) {
          ++stream_.next_in;
          --stream_.avail_in;
          continue;
        }
        state_ = inflateReset(&stream_);
      }
      do {
        if (state_ != Z_OK && state_ != Z_BUF_ERROR) return Broken();
        stream_.next_out = reinterpret_cast<Bytef*>(out.data());
        stream_.avail_out = static_cast<uInt>(out.size());
        state_ = inflate(&stream_, Z_NO_FLUSH);
        UCUDNN_RETURN_IF_ERROR(contents->Append(
            std::string_view(out.data(), out.size() - stream_.avail_out)));
      } while (stream_.avail_out == 0 && state_ != Z_STREAM_END);
      if (state_ == Z_BUF_ERROR) state_ = Z_OK;  // it wants more input
      if (state_ != Z_OK && state_ != Z_STREAM_END) return Broken();
    }
    return {};
  }

  Status Finish() const {
    if (state_ == Z_STREAM_END) return {};
    return Fail(Code::kDataLoss, "its gzip data is truncated");
  }

 private:
  tl::unexpected<Error> Broken() const {
    return Fail(Code::kDataLoss, "its gzip data is broken: {}",
                stream_.msg != nullptr ? stream_.msg : zError(state_));
  }

  z_stream stream_ = {};
  int state_ = Z_OK;
};

Result<std::string> ReadOpen(InputFile* file, Bytes max_size) {
  Contents contents(max_size);
  // The first bytes tell gzip from other data; a pipe may deliver them one by
  // one.
  std::string head;
  while (head.size() < kGzipMagic.size()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto bytes, file->Read());
    if (bytes.empty()) break;
    head += bytes;
  }
  if (head.substr(0, kGzipMagic.size()) != kGzipMagic) {
    UCUDNN_RETURN_IF_ERROR(contents.Append(head));
    while (true) {
      UCUDNN_ASSIGN_OR_RETURN(const auto bytes, file->Read());
      if (bytes.empty()) return contents.Take();
      UCUDNN_RETURN_IF_ERROR(contents.Append(bytes));
    }
  }
  Gunzip gunzip;
  UCUDNN_RETURN_IF_ERROR(gunzip.Feed(head, &contents));
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const auto bytes, file->Read());
    if (bytes.empty()) break;
    UCUDNN_RETURN_IF_ERROR(gunzip.Feed(bytes, &contents));
  }
  UCUDNN_RETURN_IF_ERROR(gunzip.Finish());
  return contents.Take();
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, Bytes max_size) {
  InputFile file(path);
  if (!file.is_open()) {
    return Fail(Code::kNotFound, "{}: it cannot be opened: {}",
                Excerpt(path, 4096), Reason(errno));
  }
  if (file.is_directory()) {
    return Fail(Code::kNotFound, "{}: it is a directory; a file is expected",
                Excerpt(path, 4096));
  }
  Result<std::string> contents = ReadOpen(&file, max_size);
  if (!contents) {
    return Within(Excerpt(path, 4096), std::move(contents).error());
  }
  return contents;
}

}  // namespace ucudnn
