#include "coordinator/store/sql_database.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace ucudnn {
namespace {

// PostgreSQL refuses such texts; this makes SQLite refuse them too.
Status CheckText(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = Utf8Length(text.substr(at));
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

void SqlRows::Add(std::span<const SqlValue> values) {
  UCUDNN_CHECK(values.size() == width_);
  parameters_.insert(parameters_.end(), values.begin(), values.end());
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
