#ifndef UCUDNN_TESTS_SUPPORT_POSTGRES_H_
#define UCUDNN_TESTS_SUPPORT_POSTGRES_H_

// A test's private PostgreSQL server: in a temporary folder, on a socket in it.
// It ends with this object or, if the test is killed, with the test's process.
//
//   auto postgres = ThrowawayPostgres::Start(ThrowawayPostgres::Disk::kFast);
//   ASSERT_TRUE(postgres) << postgres.error().message;
//   OpenStore((*postgres)->url());

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace ucudnn {

class ThrowawayPostgres {
 public:
  enum class Disk {
    kFast,     // survives the death of processes
    kDurable,  // also flushes to the disk, as in production
  };

  // Makes and starts one; about 0.6 s. Runs it as `nobody` when root, which
  // PostgreSQL refuses to be. kNotFound: its programs are not installed.
  // Must be called by a thread that lives as long as the object.
  static Result<std::unique_ptr<ThrowawayPostgres>> Start(Disk disk);
  ~ThrowawayPostgres();
  ThrowawayPostgres(const ThrowawayPostgres&) = delete;
  ThrowawayPostgres& operator=(const ThrowawayPostgres&) = delete;

  // The URL of its first, empty database.
  std::string url() const { return UrlOf("postgres"); }
  // Empties that database again; quicker than making another.
  Status Empty();
  // Creates another empty database, with these options of CREATE DATABASE;
  // returns its URL.
  Result<std::string> CreateDatabase(const std::string& options = "");

  // Runs a statement as its owner, outside of transactions.
  Status Execute(const std::string& statement) const;

  // Ends all processes of the server at once.
  Status Kill();
  // Starts it again, which recovers from its log.
  Status Serve();
  // Both.
  Status Crash();
  // Ends the backends of all connections.
  Status EndConnections();
  // Stops all processes of the server where they are, and lets them go on.
  void Freeze();
  void Thaw();

 private:
  ThrowawayPostgres(std::string programs, std::string folder)
      : programs_(std::move(programs)), folder_(std::move(folder)) {}

  std::string UrlOf(const std::string& database) const;
  // Starts a program with arguments as the server's user.
  Result<pid_t> Spawn(const std::vector<std::string>& arguments) const;
  Status RunToEnd(const std::vector<std::string>& arguments) const;
  std::string Log() const;

  std::string programs_;  // the folder of initdb and postgres
  std::string folder_;
  pid_t server_ = -1;
  int databases_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_SUPPORT_POSTGRES_H_
