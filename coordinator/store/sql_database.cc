#include "coordinator/store/sql_database.h"

#include <algorithm>
#include <string_view>

namespace ucudnn {
namespace {

// The length of the UTF-8 sequence that `text` starts with, as Unicode's table
// of well-formed sequences has it; 0 if there is none.
std::size_t SequenceLength(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      if ((byte(i) & 0xC0U) != 0x80U) return false;
    }
    return true;
  };
  const unsigned lead = byte(0);
  const unsigned second = byte(1);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1, 2) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (lead == 0xE0 && second < 0xA0) return 0;  // overlong
    if (lead == 0xED && second > 0x9F) return 0;  // surrogates
    return continues(1, 3) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (lead == 0xF0 && second < 0x90) return 0;  // overlong
    if (lead == 0xF4 && second > 0x8F) return 0;  // beyond U+10FFFF
    return continues(1, 4) ? 4 : 0;
  }
  return 0;
}

// What PostgreSQL refuses, SQLite shall refuse too.
Status CheckText(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = SequenceLength(text.substr(at));
    if (length == 0 || text[at] == '\0') {
      return Fail(Code::kInvalidArgument,
                  "a text holds the byte 0x{:02x} at offset {}; it must be "
                  "UTF-8 without NUL",
                  static_cast<unsigned char>(text[at]), at);
    }
    at += length;
  }
  return {};
}

}  // namespace

bool SqlRow::IsNull(std::size_t column) const {
  return std::holds_alternative<SqlNull>(values_.at(column));
}

std::int64_t SqlRow::Int(std::size_t column) const {
  const auto* value = std::get_if<std::int64_t>(&values_.at(column));
  UCUDNN_CHECK(value != nullptr);
  return *value;
}

const std::string& SqlRow::Text(std::size_t column) const {
  const auto* value = std::get_if<std::string>(&values_.at(column));
  UCUDNN_CHECK(value != nullptr);
  return *value;
}

const std::string& SqlRow::Bytes(std::size_t column) const {
  const auto* value = std::get_if<SqlBytes>(&values_.at(column));
  UCUDNN_CHECK(value != nullptr);
  return value->bytes;
}

Result<std::vector<SqlRow>> SqlTransaction::Query(
    const std::string& statement, std::span<const SqlValue> parameters) {
  for (const SqlValue& value : parameters) {
    if (const auto* text = std::get_if<std::string>(&value)) {
      UCUDNN_RETURN_IF_ERROR(CheckText(*text));
    }
  }
  return DoQuery(statement, parameters);
}

Status SqlTransaction::Execute(const std::string& statement,
                               std::span<const SqlValue> parameters) {
  UCUDNN_RETURN_IF_ERROR(Query(statement, parameters));
  return {};
}

SqlRows::SqlRows(std::string row, std::vector<SqlValue> first)
    : row_(std::move(row)),
      first_(first.size()),
      width_(static_cast<std::size_t>(std::ranges::count(row_, '$'))),
      parameters_(std::move(first)) {}

void SqlRows::Add(std::initializer_list<SqlValue> values) {
  UCUDNN_CHECK(values.size() == width_);
  parameters_.insert(parameters_.end(), values);
}

std::string SqlRows::Text() const {
  std::string text;
  std::size_t parameter = first_;
  while (parameter < parameters_.size()) {
    if (!text.empty()) text += ", ";
    for (const char c : row_) {
      text += c;
      if (c == '$') text += std::to_string(++parameter);
    }
  }
  return text;
}

}  // namespace ucudnn
