#ifndef UCUDNN_BASE_FILES_CSV_H_
#define UCUDNN_BASE_FILES_CSV_H_

// Reading and writing CSV with a header, the form of every table we exchange.
//
//   UCUDNN_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(text, "p.csv"));
//   UCUDNN_ASSIGN_OR_RETURN(const CsvColumn batch, csv.Require("batch"));
//   while (true) {
//     UCUDNN_ASSIGN_OR_RETURN(const bool more, csv.Next());
//     if (!more) break;
//     UCUDNN_ASSIGN_OR_RETURN(const auto n, csv.Read(batch, ParseBatch));
//   }
//
// Lines end in LF or CRLF; a byte order mark and empty lines are skipped. A
// field may be in double quotes, with a quote inside doubled; it holds no line
// break. Columns are found by name; the others are ignored. Errors are
// kInvalidArgument and begin with source:line.
//
// One pass over the text without copying it, whatever its length; O(line)
// memory. A reader belongs to one thread at a time.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ucudnn {

// A column's position in the header.
using CsvColumn = std::size_t;

class CsvReader {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{1} << 16;

  // Reads the header; `text` must outlive the reader. An error if there is no
  // header, if it is a line that Next would refuse, or if something else than
  // commas separates its names.
  static Result<CsvReader> Open(std::string_view text, std::string_view source);

  // An error that lists the columns if `name` is missing or appears twice.
  Result<CsvColumn> Require(std::string_view name) const;
  // The same, but empty if there is no such column.
  Result<std::optional<CsvColumn>> Find(std::string_view name) const;

  // Advances to the next row; false at the end. An error if the line is longer
  // than kMaxLineBytes, is not UTF-8, holds control characters or a misplaced
  // quote, or differs from the header in its number of fields.
  Result<bool> Next();

  // The current row's field, valid until Next.
  std::string_view Field(CsvColumn column) const { return fields_[column]; }
  // The line of the current row, from 1.
  std::int64_t line() const { return line_; }

  // parse(Field(column)); its error names line and column.
  template <class Parse>
  std::invoke_result_t<Parse, std::string_view> Read(CsvColumn column,
                                                     Parse parse) const {
    auto value = parse(Field(column));
    if (!value) return At(column, std::move(value).error());
    return value;
  }

  // The field as a whole number from `min` to `max`.
  Result<std::int64_t> ReadInteger(CsvColumn column, std::int64_t min,
                                   std::int64_t max) const;
  // `error` with the place of the current row, or of its field in `column`.
  tl::unexpected<Error> At(Error error) const;
  tl::unexpected<Error> At(CsvColumn column, Error error) const;

 private:
  CsvReader(std::string_view text, std::string_view source)
      : rest_(text), source_(source) {}

  // Advances to the next non-empty line and splits it into fields_.
  Result<bool> NextLine();
  Status Split(std::string_view line);
  Result<std::string_view> Unquote(std::string_view* line);

  std::string_view rest_;  // the text from the next line on
  std::string source_;
  std::int64_t line_ = 0;
  std::vector<std::string> header_;
  std::vector<std::string_view> fields_;
  // Unescaped fields that had doubled quotes; never reallocated while fields_
  // point into it.
  std::string unquoted_;
};

// Whether the text begins with a byte order mark of UTF-16, as spreadsheets
// write it ("Unicode text").
bool IsUtf16(std::string_view text);

// The first 32 of the names, for errors: "a, b, c, ...".
std::string FirstNames(const std::vector<std::string>& names);

// The field, a name; an error if it is empty.
Result<std::string_view> ParseNonEmpty(std::string_view field);

// Appends `field` as CsvReader reads it back, quoted if necessary. `field` is
// plain text (base/text.h).
void AppendCsvField(std::string* line, std::string_view field);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_FILES_CSV_H_
