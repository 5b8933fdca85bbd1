#include "coordinator/store/sql_database.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

Status CheckTexts(std::span<const SqlValue> values) {
  for (const SqlValue& value : values) {
    if (const auto* text = std::get_if<std::string>(&value)) {
      UCUDNN_RETURN_IF_ERROR(CheckText(*text));
    }
  }
  return {};
}

}  // namespace

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
  UCUDNN_RETURN_IF_ERROR(CheckTexts(parameters));
  return DoQuery(statement, parameters);
}

Status SqlTransaction::Execute(const std::string& statement,
                               std::span<const SqlValue> parameters) {
  UCUDNN_RETURN_IF_ERROR(Query(statement, parameters));
  return {};
}

Result<std::vector<SqlRow>> SqlTransaction::Query(
    const std::string& statement, const SqlRows& rows,
    std::span<const SqlValue> parameters) {
  if (rows.size() == 0) return std::vector<SqlRow>();
  UCUDNN_RETURN_IF_ERROR(CheckTexts(parameters));
  for (const SqlRows::Column& column : rows.columns()) {
    if (column.is_bytes()) continue;
    std::string_view checked;
    for (const std::string_view text : column.texts) {
      // Many rows have the same kind and problem.
      if (text.data() == checked.data() && text.size() == checked.size()) {
        continue;
      }
      UCUDNN_RETURN_IF_ERROR(CheckText(text));
      checked = text;
    }
  }
  return DoQuery(statement, rows, parameters);
}

Status SqlTransaction::Execute(const std::string& statement,
                               const SqlRows& rows,
                               std::initializer_list<SqlValue> parameters) {
  UCUDNN_RETURN_IF_ERROR(Query(statement, rows, parameters));
  return {};
}

SqlRows::SqlRows(std::string_view columns) {
  while (!columns.empty()) {
    const std::string_view column = columns.substr(0, columns.find(", "));
    columns.remove_prefix(std::min(column.size() + 2, columns.size()));
    const std::size_t space = column.find(' ');
    columns_.push_back({.name = std::string(column.substr(0, space)),
                        .type = std::string(column.substr(space + 1))});
    const Column& added = columns_.back();
    UCUDNN_CHECK(added.is_number() || added.is_bytes() || added.type == "TEXT");
  }
}

void SqlRows::Add(std::span<const Cell> cells) {
  UCUDNN_CHECK(cells.size() == columns_.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (columns_[i].is_number()) {
      columns_[i].numbers.push_back(std::get<std::int64_t>(cells[i]));
    } else {
      columns_[i].texts.push_back(std::get<std::string_view>(cells[i]));
    }
  }
  ++size_;
}

std::string SqlRows::Names() const {
  std::string names;
  for (const Column& column : columns_) {
    names += (names.empty() ? "" : ", ") + column.name;
  }
  return names;
}

std::string WithRows(std::string statement, const std::string& table,
                     const std::string& values) {
  for (const auto& [name, text] :
       {std::pair{"$rows", &table}, std::pair{"$values", &values}}) {
    const std::size_t at = statement.find(name);
    if (at == std::string::npos) continue;
    statement.replace(at, std::string_view(name).size(), *text);
  }
  return statement;
}

}  // namespace ucudnn
