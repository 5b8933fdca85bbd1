#include "coordinator/store/postgres_parameters.h"

#include <cstdint>
#include <string_view>
#include <utility>

namespace ucudnn {
namespace {

// PostgreSQL: src/include/catalog/pg_type.dat.
constexpr std::uint32_t kBytea = 17;
constexpr std::uint32_t kInt8 = 20;
constexpr std::uint32_t kText = 25;

// Appends the number in network order.
template <class Number>
void Append(Number number, std::string* bytes) {
  const auto bits = static_cast<std::uint64_t>(number);
  for (std::size_t byte = sizeof(Number); byte-- > 0;) {
    *bytes += static_cast<char>(bits >> (8 * byte));
  }
}

std::uint32_t ElementOf(const SqlRows::Column& column) {
  if (column.is_number()) return kInt8;
  return column.is_bytes() ? kBytea : kText;
}

// An array of one dimension; PostgreSQL: array_recv.
std::string ArrayOf(const SqlRows::Column& column, std::size_t first,
                    std::size_t count) {
  std::string bytes;
  Append(std::uint32_t{1}, &bytes);  // dimensions
  Append(std::uint32_t{0}, &bytes);  // has no nulls
  Append(ElementOf(column), &bytes);
  Append(static_cast<std::uint32_t>(count), &bytes);
  Append(std::uint32_t{1}, &bytes);  // the first index
  for (std::size_t i = first; i < first + count; ++i) {
    if (column.is_number()) {
      Append(std::uint32_t{sizeof(std::int64_t)}, &bytes);
      Append(column.numbers[i], &bytes);
    } else {
      const std::string_view text = column.texts[i];
      Append(static_cast<std::uint32_t>(text.size()), &bytes);
      bytes += text;
    }
  }
  return bytes;
}

}  // namespace

PostgresParameters::PostgresParameters(std::span<const SqlValue> values) {
  for (const SqlValue& value : values) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      AddMade(std::to_string(*number), /*binary=*/false);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      Add(text->c_str(), text->size(), /*binary=*/false);
    } else if (const auto* bytes = std::get_if<SqlBytes>(&value)) {
      Add(bytes->bytes.c_str(), bytes->bytes.size(), /*binary=*/true);
    } else {
      Add(nullptr, 0, /*binary=*/false);
    }
  }
}

void PostgresParameters::AddRows(const SqlRows& rows, std::size_t first,
                                 std::size_t count) {
  for (const SqlRows::Column& column : rows.columns()) {
    AddMade(ArrayOf(column, first, count), /*binary=*/true);
  }
}

void PostgresParameters::Add(const char* value, std::size_t length,
                             bool binary) {
  values_.push_back(value);
  lengths_.push_back(static_cast<int>(length));
  formats_.push_back(binary ? 1 : 0);
}

void PostgresParameters::AddMade(std::string value, bool binary) {
  const std::string& kept = made_.emplace_back(std::move(value));
  Add(kept.c_str(), kept.size(), binary);
}

}  // namespace ucudnn
