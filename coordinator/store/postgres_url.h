#ifndef UCUDNN_COORDINATOR_STORE_POSTGRES_URL_H_
#define UCUDNN_COORDINATOR_STORE_POSTGRES_URL_H_

// Where a PostgreSQL server is and how to log in there, as its URL says.

#include <libpq-fe.h>

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace ucudnn {

class PostgresUrl {
 public:
  // kInvalidArgument, without a word of the URL, which may hold a password.
  static Result<PostgresUrl> Parse(const std::string& url);

  // Its servers, for people: "db-1:5432,db-2:5432".
  const std::string& servers() const { return servers_; }
  // A new connection, which may have failed, with timeouts. kUnavailable if no
  // name server answers.
  Result<PGconn*> Connect() const;

 private:
  std::map<std::string, std::string> parameters_;
  std::vector<std::string> names_;  // hosts, if all have to be looked up
  std::string servers_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_POSTGRES_URL_H_
