#include "base/files/buffers.h"

#include <limits>
#include <unordered_map>

#include "base/files/csv.h"
#include "base/files/file.h"
#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

}  // namespace

Result<NamedBuffers> ParseBuffersCsv(std::string_view text,
                                     std::string_view source) {
  UCUDNN_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(text, source));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn id_column, csv.Require("id"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn lower_column, csv.Require("lower"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn upper_column, csv.Require("upper"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn size_column, csv.Require("size"));
  NamedBuffers read;
  std::unordered_map<std::string, std::int64_t> lines;
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) break;
    UCUDNN_ASSIGN_OR_RETURN(const std::string_view id,
                            csv.Read(id_column, ParseNonEmpty));
    const auto [first, is_new] = lines.emplace(id, csv.line());
    if (!is_new) {
      return csv.At(
          id_column,
          {Code::kInvalidArgument,
           fmt::format("'{}' is the id of line {}; each buffer needs its own",
                       Excerpt(id), first->second)});
    }
    Buffer buffer;
    UCUDNN_ASSIGN_OR_RETURN(buffer.begin,
                            csv.ReadInteger(lower_column, 0, kMost));
    UCUDNN_ASSIGN_OR_RETURN(buffer.end,
                            csv.ReadInteger(upper_column, buffer.begin, kMost));
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t size,
                            csv.ReadInteger(size_column, 0, kMost));
    buffer.size = Bytes(size);
    read.ids.emplace_back(id);
    read.buffers.push_back(buffer);
  }
  if (read.buffers.empty()) {
    return Fail(Code::kInvalidArgument,
                "{}: there is no row; one or more buffers are expected",
                source);
  }
  return read;
}

Result<NamedBuffers> ReadBuffersFile(const std::string& path, Bytes max_size) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, max_size));
  return ParseBuffersCsv(text, Excerpt(path, 4096));
}

}  // namespace ucudnn
