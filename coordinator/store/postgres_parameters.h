#ifndef UCUDNN_COORDINATOR_STORE_POSTGRES_PARAMETERS_H_
#define UCUDNN_COORDINATOR_STORE_POSTGRES_PARAMETERS_H_

// The parameters of a statement as libpq takes them. Texts and bytes are sent
// as they are, numbers as text, and the columns of rows as arrays in
// PostgreSQL's binary form.

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "coordinator/store/sql_database.h"

namespace ucudnn {

// Values and rows must outlive it.
class PostgresParameters {
 public:
  explicit PostgresParameters(std::span<const SqlValue> values);
  // Appends the rows from `first` on, `count` of them, a parameter for each
  // column.
  void AddRows(const SqlRows& rows, std::size_t first, std::size_t count);

  int count() const { return static_cast<int>(values_.size()); }
  const char* const* values() const { return values_.data(); }
  const int* lengths() const { return lengths_.data(); }
  const int* formats() const { return formats_.data(); }

 private:
  void Add(const char* value, std::size_t length, bool binary);
  // Adds what has to be kept.
  void AddMade(std::string value, bool binary);

  std::vector<const char*> values_;
  std::vector<int> lengths_;  // read of binary values only
  std::vector<int> formats_;  // 1: binary
  std::deque<std::string> made_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_POSTGRES_PARAMETERS_H_
