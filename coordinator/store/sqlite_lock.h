#ifndef UCUDNN_COORDINATOR_STORE_SQLITE_LOCK_H_
#define UCUDNN_COORDINATOR_STORE_SQLITE_LOCK_H_

// Keeps other coordinators from a SQLite database, which serves one.

#include <memory>
#include <string>

#include "base/result.h"

namespace ucudnn {

// Holds the database while it lives, by a lock on the file PATH.lock; the
// system ends the lock with the process, however that ends.
class SqliteLock {
 public:
  // Null for databases in memory and PostgreSQL. kFailedPrecondition: another
  // process holds the database, or there is no file and `create` is false;
  // kUnavailable, with the system's reason: the lock's file cannot be written.
  static Result<std::unique_ptr<SqliteLock>> Take(const std::string& url,
                                                  bool create);
  ~SqliteLock();
  SqliteLock(const SqliteLock&) = delete;
  SqliteLock& operator=(const SqliteLock&) = delete;

 private:
  explicit SqliteLock(int file) : file_(file) {}

  const int file_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_SQLITE_LOCK_H_
