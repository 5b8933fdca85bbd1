#include "base/files/csv.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"

namespace ucudnn {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

std::string FirstNames(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 32;
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    if (i > 0) list += ", ";
    list += Excerpt(names[i]);
  }
  if (names.size() > kShown) list += ", ...";
  return list;
}

bool IsUtf16(std::string_view text) {
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
}

Result<CsvReader> CsvReader::Open(std::string_view text,
                                  std::string_view source) {
  CsvReader csv(text, source);
  if (IsUtf16(text)) {
    return Fail(Code::kInvalidArgument,
                "{}: it is text in UTF-16; UTF-8 is accepted (in a "
                "spreadsheet, save it as \"CSV UTF-8\")",
                csv.source_);
  }
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    csv.rest_.remove_prefix(kByteOrderMark.size());
  }
  UCUDNN_ASSIGN_OR_RETURN(const bool any, csv.NextLine());
  if (!any) {
    return Fail(Code::kInvalidArgument,
                "{}: it is empty; a header that names the columns is expected",
                csv.source_);
  }
  csv.header_.assign(csv.fields_.begin(), csv.fields_.end());
  const std::size_t other = csv.header_[0].find_first_of(";\t");
  if (csv.header_.size() == 1 && other != std::string::npos) {
    return Fail(Code::kInvalidArgument,
                "{}:{}: its columns are separated by {}; commas are accepted",
                csv.source_, csv.line_,
                csv.header_[0][other] == ';' ? "';'" : "tabs");
  }
  return csv;
}

Result<CsvColumn> CsvReader::Require(std::string_view name) const {
  UCUDNN_ASSIGN_OR_RETURN(const auto column, Find(name));
  if (!column) {
    return Fail(Code::kInvalidArgument,
                "{}: there is no column '{}'; the header names {}", source_,
                name, FirstNames(header_));
  }
  return *column;
}

Result<std::optional<CsvColumn>> CsvReader::Find(std::string_view name) const {
  const auto first = std::find(header_.begin(), header_.end(), name);
  if (first == header_.end()) return std::optional<CsvColumn>();
  if (std::find(first + 1, header_.end(), name) != header_.end()) {
    return Fail(Code::kInvalidArgument,
                "{}: the header names column '{}' twice; once is accepted",
                source_, name);
  }
  return std::optional<CsvColumn>(CsvColumn(first - header_.begin()));
}

Result<bool> CsvReader::Next() {
  UCUDNN_ASSIGN_OR_RETURN(const bool more, NextLine());
  if (more && fields_.size() != header_.size()) {
    return At({Code::kInvalidArgument,
               fmt::format("the row has {} fields; {} are expected, as many as "
                           "the header has",
                           fields_.size(), header_.size())});
  }
  return more;
}

Result<std::int64_t> CsvReader::ReadInteger(CsvColumn column, std::int64_t min,
                                            std::int64_t max) const {
  return Read(column, [=](std::string_view field) {
    return ParseInteger(field, min, max);
  });
}

tl::unexpected<Error> CsvReader::At(Error error) const {
  return Within(fmt::format("{}:{}", source_, line_), std::move(error));
}

tl::unexpected<Error> CsvReader::At(CsvColumn column, Error error) const {
  return Within(
      fmt::format("{}:{}: column '{}'", source_, line_, header_[column]),
      std::move(error));
}

Result<bool> CsvReader::NextLine() {
  while (!rest_.empty()) {
    ++line_;
    const std::string_view window = rest_.substr(0, kMaxLineBytes + 2);
    const std::size_t end = window.find('\n');
    std::string_view line = window.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.size() > kMaxLineBytes) {
      return At(
          {Code::kInvalidArgument,
           fmt::format("the line is longer than {} bytes", kMaxLineBytes)});
    }
    rest_.remove_prefix(end == std::string_view::npos ? window.size()
                                                      : end + 1);
    if (line.empty()) continue;
    if (!IsPlainText(line)) {
      return At({Code::kInvalidArgument,
                 fmt::format("'{}' is not plain text; UTF-8 without control "
                             "characters is accepted",
                             Excerpt(line))});
    }
    UCUDNN_RETURN_IF_ERROR(Split(line));
    return true;
  }
  return false;
}

Status CsvReader::Split(std::string_view line) {
  fields_.clear();
  unquoted_.clear();
  while (true) {
    if (!line.empty() && line.front() == '"') {
      UCUDNN_ASSIGN_OR_RETURN(const auto field, Unquote(&line));
      fields_.push_back(field);
      if (line.empty()) return {};
    } else {
      const std::size_t comma = line.find(',');
      const std::string_view field = line.substr(0, comma);
      if (field.find('"') != std::string_view::npos) {
        return At({Code::kInvalidArgument,
                   fmt::format("'{}' has a quote inside; a field with quotes "
                               "is written in quotes, with each doubled",
                               Excerpt(field))});
      }
      fields_.push_back(field);
      if (comma == std::string_view::npos) return {};
      line.remove_prefix(comma);
    }
    line.remove_prefix(1);  // the comma
  }
}

// Takes a quoted field off the front of `line`, up to the comma or the end.
Result<std::string_view> CsvReader::Unquote(std::string_view* line) {
  const auto bad = [&](std::string_view what) {
    return At({Code::kInvalidArgument,
               fmt::format("the quoted field {} {}", Excerpt(*line), what)});
  };
  unquoted_.reserve(kMaxLineBytes);
  const std::size_t start = unquoted_.size();
  std::string_view rest = line->substr(1);
  while (true) {
    const std::size_t quote = rest.find('"');
    if (quote == std::string_view::npos) {
      return bad("is not closed on its line");
    }
    unquoted_ += rest.substr(0, quote);
    rest.remove_prefix(quote + 1);
    if (rest.empty() || rest.front() != '"') break;
    unquoted_ += '"';
    rest.remove_prefix(1);
  }
  if (!rest.empty() && rest.front() != ',') {
    return bad("continues after its closing quote");
  }
  *line = rest;
  return std::string_view(unquoted_).substr(start);
}

Result<std::string_view> ParseNonEmpty(std::string_view field) {
  if (field.empty()) {
    return Fail(Code::kInvalidArgument,
                "'' is not a name; one or more characters are accepted");
  }
  return field;
}

void AppendCsvField(std::string* line, std::string_view field) {
  if (field.find_first_of(",\"") == std::string_view::npos) {
    line->append(field);
    return;
  }
  line->push_back('"');
  for (const char c : field) {
    if (c == '"') line->push_back('"');
    line->push_back(c);
  }
  line->push_back('"');
}

}  // namespace ucudnn
