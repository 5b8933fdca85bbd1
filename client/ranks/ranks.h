#ifndef UCUDNN_CLIENT_RANKS_RANKS_H_
#define UCUDNN_CLIENT_RANKS_RANKS_H_

// The ranks of a job, on their own communicator, with collective calls that end
// by a deadline. If a call misses it, or MPI fails, the ranks are broken:
// requests that MPI still holds are leaked, because they cannot be cancelled,
// and every later call fails at once, so that no rank enters the next
// collective while others are still in this one. Used by one thread at a time.
//
// Uses only nonblocking MPI calls, tested until the deadline; a lost rank is
// noticed by its silence (docs/adr/0007), and named if it is on this node.

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
#include "base/service/environment.h"
#include "client/ranks/shared_memory.h"

namespace ucudnn {

// kFailedPrecondition if Slurm started several tasks, but MPI sees `world` == 1
// rank: without PMI the tasks do not know each other, and each would train the
// whole mini-batch.
Status CheckLaunch(const Environment& environment, int world);

class Ranks {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Duplicates `comm`, collectively. kFailedPrecondition if MPI is not
  // initialised or already finalised, and of CheckLaunch; kInvalidArgument if
  // `comm` is not an intracommunicator, kDeadlineExceeded if not all ranks call
  // it in time, kUnavailable if MPI fails.
  static Result<std::unique_ptr<Ranks>> Duplicate(MPI_Comm comm,
                                                  Deadline deadline);
  // Frees the communicator, unless MPI is finalised or the ranks are broken.
  ~Ranks() { Close(); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // False after any failure.
  bool usable() const { return !broken_; }
  // Frees the communicator, as the destructor does; every later call fails.
  void Close();

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Every rank's text, in rank order. kDeadlineExceeded, kUnavailable.
  Result<std::vector<std::string>> AllGather(const std::string& mine,
                                             Deadline deadline);
  // The first rank's error, prefixed with the rank, or OK; the same on all
  // ranks. The outer error is that the ranks could not agree.
  Result<Status> AllOf(const Status& mine, Deadline deadline);
  // Copies rank 0's text to all ranks. Errors as AllGather.
  Status Broadcast(std::string* text, Deadline deadline);
  // The maximum of all ranks' numbers. Errors as AllGather. Cheap enough for
  // every step: one reduction of eight bytes.
  Result<std::int64_t> Max(std::int64_t mine, Deadline deadline);
  // The element-wise maximum; all ranks give vectors of the same length.
  Result<std::vector<std::int64_t>> MaxOfEach(std::vector<std::int64_t> mine,
                                              Deadline deadline);

  // Returns when all ranks have called it. Errors as AllGather.
  Status Barrier(Deadline deadline);

  // Collective: memory that all ranks share, `bytes` for each, in rank order;
  // null if they cannot share, for example across nodes. Created by the first
  // call; later calls must ask for the same size and return the same memory,
  // which lasts until the ranks are destroyed. Errors: the ranks could not
  // agree.
  Result<SharedMemory*> Window(std::size_t bytes, Deadline deadline);
  // Makes Window return null from now on; all ranks must call it. For tests and
  // comparisons.
  void ForgoWindow();

  // Starts summing `values` over the ranks, in place; all ranks give the same
  // count. MPI owns the values until Await returns OK; after an error, for
  // ever. T is float or double.
  template <class T>
  Result<MPI_Request> BeginSum(T* values, std::size_t count);
  // Waits for the request; kDeadlineExceeded, kUnavailable.
  Status Await(MPI_Request* request, Deadline deadline);
  // Marks the ranks broken after a failure that only this rank knows of; the
  // others run into their deadline. Others may still use the window.
  void GiveUp();

  // Tells the other ranks, which may wait elsewhere than in MPI, that this one
  // cannot go on; and whether one of them has told so. Neither waits.
  void Alarm();
  bool Alarmed();

  // A communicator of the ranks with `in`, in rank order, which the caller
  // frees; MPI_COMM_NULL on the others. Unless all ranks are in, MPI can only
  // create it by a blocking call. With MPI_THREAD_MULTIPLE, a thread makes that
  // call and is left behind if time runs out. Otherwise the call follows an
  // agreement, and hangs if one of those ranks is lost during it.
  Result<MPI_Comm> Subset(bool in, Deadline deadline);

 private:
  struct Pending;
  // How to wait: kLong leaves the cores to others, kShort reacts within
  // microseconds.
  enum class Patience { kLong, kShort };

  Ranks() = default;
  // Waits for `pending`, which leaks if time runs out.
  Status Await(std::unique_ptr<Pending>& pending, Deadline deadline,
               Patience patience = Patience::kLong);
  Status AwaitRequest(MPI_Request* request, Deadline deadline,
                      Patience patience);
  // Checks the code that `call` returned. The other ranks may have started the
  // call, so a failure here breaks the ranks.
  Status Begun(std::string_view call, int code);
  Status Usable() const;
  // Shares how many calls each rank of this node has begun. Collective.
  Status ShareProgress(Deadline deadline);
  // Which ranks of this node keep the others waiting, for people; empty if that
  // is not known.
  std::string Missing() const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool broken_ = false;
  // By rank, those of this node; null elsewhere.
  std::vector<std::unique_ptr<SharedMemory>> progress_;
  // Unset until Window was called.
  std::optional<std::unique_ptr<SharedMemory>> window_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_RANKS_RANKS_H_
