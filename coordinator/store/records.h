#ifndef UCUDNN_COORDINATOR_STORE_RECORDS_H_
#define UCUDNN_COORDINATOR_STORE_RECORDS_H_

// What all subjects of the store need to write statements and read rows.

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "coordinator/store/pulse.h"
#include "coordinator/store/sql_database.h"

namespace ucudnn {

// Keys are indexed, and PostgreSQL indexes at most a third of a page.
inline constexpr std::size_t kMaxKeyBytes = 512;

// kInvalidArgument, naming `what`, if the key is empty or too long.
Status CheckKey(std::string_view what, std::string_view key);
// kInvalidArgument if the limit is negative.
Status CheckLimit(std::int64_t limit);

// Appends the texts to the parameters, and returns their names for a
// statement: "$3, $4".
std::string AddTexts(std::span<const std::string> texts,
                     std::vector<SqlValue>* parameters);

// The database's own.
Result<std::string> ReadEpoch(SqlTransaction& sql);

// The pulses in the rows of (id, beats) that `statement` selects.
Result<std::vector<Pulse>> ReadPulses(SqlTransaction& sql,
                                      const std::string& statement);
// Runs `update` over the pulses as $rows (id, beats); returns the ids that it
// returns, sorted.
Result<std::vector<std::string>> UpdateSilent(SqlTransaction& sql,
                                              std::span<const Pulse> silent,
                                              const std::string& update);

// The enum's value with this name, of names in the order of the values.
// kInvalidArgument: there is none, `what` it is.
template <class Enum, std::size_t count>
Result<Enum> ParseState(const std::array<std::string_view, count>& names,
                        std::string_view what, std::string_view text) {
  for (std::size_t i = 0; i < count; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return Fail(Code::kInvalidArgument, "'{}' is not {}: {}", text, what,
              fmt::join(names, ", "));
}

// The error for a stored value that no version has written.
inline Error Unreadable(const Error& error) {
  return {Code::kDataLoss, "the database is not readable: " + error.message};
}

// The record that `read` makes of each row.
template <class Read>
auto Records(const Result<std::vector<SqlRow>>& rows, const Read& read) {
  using Record =
      typename std::invoke_result_t<const Read&, const SqlRow&>::value_type;
  using Records = Result<std::vector<Record>>;
  if (!rows) return Records(tl::unexpected<Error>(rows.error()));
  std::vector<Record> records;
  records.reserve(rows->size());
  for (const SqlRow& row : *rows) {
    auto record = read(row);
    if (!record) {
      return Records(tl::unexpected<Error>(Unreadable(record.error())));
    }
    records.push_back(*std::move(record));
  }
  return Records(std::move(records));
}

// The record of the only row; kNotFound, naming `what`, if there is no row.
template <class Read>
auto OneRecord(const Result<std::vector<SqlRow>>& rows, const Read& read,
               const std::string& what)
    -> std::invoke_result_t<const Read&, const SqlRow&> {
  if (!rows) return tl::unexpected<Error>(rows.error());
  if (rows->empty()) return Fail(Code::kNotFound, "there is no {}", what);
  return read(rows->front()).map_error(Unreadable);
}

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_RECORDS_H_
