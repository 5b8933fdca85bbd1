#include "coordinator/store/records.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace ucudnn {

Status CheckKey(std::string_view what, std::string_view key) {
  if (key.empty()) {
    return Fail(Code::kInvalidArgument, "{} is empty", what);
  }
  if (key.size() > kMaxKeyBytes) {
    return Fail(Code::kInvalidArgument,
                "{} '{}' is {} bytes long; at most {} are accepted", what,
                Excerpt(key, 40), key.size(), kMaxKeyBytes);
  }
  return {};
}

Status CheckLimit(std::int64_t limit) {
  if (limit < 0) {
    return Fail(Code::kInvalidArgument, "the limit {} is negative", limit);
  }
  return {};
}

std::string AddTexts(std::span<const std::string> texts,
                     std::vector<SqlValue>* parameters) {
  std::string names;
  for (const std::string& text : texts) {
    parameters->emplace_back(text);
    names +=
        fmt::format("{}${}", names.empty() ? "" : ", ", parameters->size());
  }
  return names;
}

Result<std::string> ReadEpoch(SqlTransaction& sql) {
  UCUDNN_ASSIGN_OR_RETURN(const auto rows,
                          sql.Query("SELECT epoch FROM identity"));
  if (rows.size() != 1) {
    return Fail(Code::kDataLoss, "the database has {} identities", rows.size());
  }
  return rows[0].Text(0);
}

Result<std::vector<Pulse>> ReadPulses(SqlTransaction& sql,
                                      const std::string& statement) {
  return Records(sql.Query(statement), [](const SqlRow& row) -> Result<Pulse> {
    return Pulse{row.Text(0), row.Int(1)};
  });
}

Result<std::vector<std::string>> UpdateSilent(SqlTransaction& sql,
                                              std::span<const Pulse> silent,
                                              const std::string& update) {
  SqlRows rows("id TEXT, beats BIGINT");
  for (const Pulse& pulse : silent) rows.Add({pulse.id, pulse.beats});
  UCUDNN_ASSIGN_OR_RETURN(const auto updated, sql.Query(update, rows));
  std::vector<std::string> ids;
  for (const SqlRow& row : updated) ids.push_back(row.Text(0));
  std::ranges::sort(ids);
  return ids;
}

}  // namespace ucudnn
