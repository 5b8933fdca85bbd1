#include "coordinator/store/sql_store.h"

#include "base/text.h"
#include "coordinator/store/migrations.h"

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

Status SqlStore::Ping() {
  return database_->Run(Access::kRead, [](SqlTransaction& sql) -> Status {
    return sql.Execute("SELECT 1");
  });
}

Result<std::int64_t> SqlStore::SchemaVersion() {
  return InTransaction(*database_, Access::kRead, [](SqlTransaction& sql) {
    return ucudnn::SchemaVersion(sql);
  });
}

}  // namespace ucudnn
