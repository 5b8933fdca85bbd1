#include "coordinator/store/open_database.h"

#include <string_view>
#include <utility>

#include "coordinator/store/schema.h"
#include "coordinator/store/timed_database.h"

namespace ucudnn {
namespace {

Result<std::unique_ptr<SqlDatabase>> OpenUrl(const std::string& url) {
  UCUDNN_RETURN_IF_ERROR(CheckDatabaseUrl(url));
  if (url.starts_with("sqlite:")) return OpenSqlite(url);
#ifdef UCUDNN_WITH_POSTGRES
  return OpenPostgres(url);
#else
  return Fail(Code::kUnimplemented,
              "this build lacks PostgreSQL: build with libpq "
              "(-DUCUDNN_WITH_POSTGRES=ON), or use sqlite:///path/file.db");
#endif
}

}  // namespace

Status CheckDatabaseUrl(const std::string& url) {
  constexpr std::string_view kFile = "sqlite:///";
  if (url == "sqlite::memory:" || url.starts_with("postgresql://") ||
      url.starts_with("postgres://") ||
      (url.starts_with(kFile) && url.size() > kFile.size() &&
       url.back() != '/')) {
    return {};
  }
  // Other URLs may hold a password: only their scheme is quoted.
  return Fail(
      Code::kInvalidArgument,
      "'{}' is not a database URL; accepted are sqlite:///path/file.db, "
      "sqlite::memory: and postgresql://user@host/database",
      url.starts_with("sqlite:") ? url
                                 : url.substr(0, url.find_first_of(":=")));
}

Result<std::unique_ptr<SqlDatabase>> OpenDatabase(
    const std::string& url, TransactionObserver observer) {
  UCUDNN_ASSIGN_OR_RETURN(auto database, OpenUrl(url));
  if (observer) {
    database = std::make_unique<TimedDatabase>(std::move(database),
                                               std::move(observer));
  }
  UCUDNN_RETURN_IF_ERROR(PrepareSchema(*database));
  return database;
}

}  // namespace ucudnn
