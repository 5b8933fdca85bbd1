#ifndef UCUDNN_CLIENT_RANKS_H_
#define UCUDNN_CLIENT_RANKS_H_

// The ranks of a job, on a communicator of their own, with collective calls
// that end by a deadline. Where one does not, the ranks are broken: what MPI
// still holds is left to it, for it cannot be taken back, and every later call
// fails at once. Belongs to one thread at a time.

#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace ucudnn {

class Ranks {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Duplicates `comm`, collectively. kFailedPrecondition if MPI is not
  // initialised or is finalised, kInvalidArgument if it is not an
  // intracommunicator, kDeadlineExceeded if not all ranks call it in time,
  // kUnavailable if MPI fails.
  static Result<std::unique_ptr<Ranks>> Duplicate(MPI_Comm comm,
                                                  Deadline deadline);
  // Frees the communicator unless MPI is finalised or the ranks are broken.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Every rank's text, in rank order. kDeadlineExceeded, kUnavailable.
  Result<std::vector<std::string>> AllGather(const std::string& mine,
                                             Deadline deadline);
  // The first error that any rank has, naming the rank, the same on all of
  // them. The outer error is that the ranks cannot agree.
  Result<Status> AllOf(const Status& mine, Deadline deadline);
  // Rank 0's text, on all ranks. The same errors.
  Status Broadcast(std::string* text, Deadline deadline);

 private:
  struct Pending;

  Ranks() = default;
  // Waits for `pending`, which it leaks if time runs out.
  Status Await(std::unique_ptr<Pending>& pending, Deadline deadline);
  Status Usable() const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool broken_ = false;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_RANKS_H_
