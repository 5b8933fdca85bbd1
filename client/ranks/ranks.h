#ifndef UCUDNN_CLIENT_RANKS_RANKS_H_
#define UCUDNN_CLIENT_RANKS_RANKS_H_

// The ranks of a job, on a communicator of their own, with collective calls
// that end by a deadline. If one does not, or MPI fails, the ranks are broken:
// what MPI still holds is left to it, for it cannot be taken back, and every
// later call fails at once, so that no rank takes part in the next collective
// while the others are still in this one. Belongs to one thread at a time.
//
// Only nonblocking calls of MPI are made, and tested until the deadline; a
// rank that is lost is noticed by its silence (docs/adr/0008).

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/ranks/shared_memory.h"

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
  ~Ranks() { Close(); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Whether nothing has failed so far.
  bool usable() const { return !broken_; }
  // Frees the communicator, as the destructor does; every later call fails.
  void Close();

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
  // The greatest of all ranks' numbers. The same errors. What a step can
  // afford: one reduction of eight bytes.
  Result<std::int64_t> Max(std::int64_t mine, Deadline deadline);
  // The same for each of as many numbers as all ranks give.
  Result<std::vector<std::int64_t>> MaxOfEach(std::vector<std::int64_t> mine,
                                              Deadline deadline);

  // Returns when all ranks have called it. The same errors.
  Status Barrier(Deadline deadline);

  // Collective: memory that all ranks share, `bytes` for each, in rank order;
  // null where they cannot, as when they are on several nodes. Made when first
  // asked for, always for as many bytes; the outcome is kept, and the memory
  // is there until the ranks are destroyed. Errors: the ranks cannot agree.
  Result<SharedMemory*> Window(std::size_t bytes, Deadline deadline);
  // From now on null, on ranks that all say so: to compare and to test with.
  void ForgoWindow();

  // Begins to sum `values` over the ranks, in place; all ranks give as many.
  // The values are MPI's until Await returns OK, and after an error for good.
  // T is float or double.
  template <class T>
  Result<MPI_Request> BeginSum(T* values, std::size_t count);
  // Waits for the request; kDeadlineExceeded, kUnavailable.
  Status Await(MPI_Request* request, Deadline deadline);
  // Something has failed on this rank that the others cannot know: they are
  // left to run out of time. Whoever still works on the window may go on.
  void GiveUp();

  // A communicator, the caller's to free, of those ranks that are `in`, in
  // rank order; MPI_COMM_NULL on the others. Unless everybody is in, MPI has
  // only a blocking call for it. With MPI_THREAD_MULTIPLE a thread makes that
  // call, which is left behind if time runs out. Otherwise it follows an
  // agreement, and waits for ever if one of those ranks is lost within it.
  Result<MPI_Comm> Subset(bool in, Deadline deadline);

 private:
  struct Pending;
  // How to wait: the first leaves the cores to others, the second reacts
  // within microseconds.
  enum class Patience { kLong, kShort };

  Ranks() = default;
  // Waits for `pending`, which it leaks if time runs out.
  Status Await(std::unique_ptr<Pending>& pending, Deadline deadline,
               Patience patience = Patience::kLong);
  Status AwaitRequest(MPI_Request* request, Deadline deadline,
                      Patience patience);
  // Whether `call` began, given what it returned. The other ranks may have
  // begun it, so one that failed here leaves the ranks broken.
  Status Begun(std::string_view call, int code);
  Status Usable() const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool broken_ = false;
  // Unset until it was looked for.
  std::optional<std::unique_ptr<SharedMemory>> window_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_RANKS_RANKS_H_
