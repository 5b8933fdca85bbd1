// One rank of ranks_test's jobs: makes a communicator of some of the ranks.
//
//   subset_ranks FOLDER single|multiple CASE
//
// CASE lists which ranks are in, such as 101, or is "lost": 101, but the last
// rank is lost after the agreement. Or it is the name of an MPI call, such as
// Ibcast, which fails at once on rank 1; that rank then calls Max. Or it is
// "absent": the last rank makes no call.

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "client/ranks/ranks.h"

namespace {

// The call that fails next on this rank.
std::string failing;  // NOLINT(runtime/string)

bool Fails(const std::string& call) {
  if (call != failing) return false;
  failing.clear();
  return true;
}

}  // namespace

// Overrides the library's functions, by MPI's profiling interface.
extern "C" {
int MPI_Iallgather(const void* mine, int count, MPI_Datatype type, void* all,
                   int of_each, MPI_Datatype all_type, MPI_Comm comm,
                   MPI_Request* request) {
  if (Fails("Iallgather")) return MPI_ERR_OTHER;
  return PMPI_Iallgather(mine, count, type, all, of_each, all_type, comm,
                         request);
}
int MPI_Iallgatherv(const void* mine, int count, MPI_Datatype type, void* all,
                    const int* counts, const int* offsets,
                    MPI_Datatype all_type, MPI_Comm comm,
                    MPI_Request* request) {
  if (Fails("Iallgatherv")) return MPI_ERR_OTHER;
  return PMPI_Iallgatherv(mine, count, type, all, counts, offsets, all_type,
                          comm, request);
}
int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root,
               MPI_Comm comm, MPI_Request* request) {
  if (Fails("Ibcast")) return MPI_ERR_OTHER;
  return PMPI_Ibcast(data, count, type, root, comm, request);
}
int MPI_Iallreduce(const void* mine, void* all, int count, MPI_Datatype type,
                   MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  if (Fails("Iallreduce")) return MPI_ERR_OTHER;
  return PMPI_Iallreduce(mine, all, count, type, op, comm, request);
}
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
  if (Fails("Comm_idup")) return MPI_ERR_OTHER;
  return PMPI_Comm_idup(comm, made, request);
}
}

namespace ucudnn {
namespace {

using std::chrono::milliseconds;

Ranks::Deadline Within(milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

std::string FileOf(const std::string& folder, int rank) {
  return fmt::format("{}/rank{}.json", folder, rank);
}

// The file appears only once it is complete.
void Tell(const std::string& folder, int rank, const nlohmann::json& json) {
  const std::string path = FileOf(folder, rank);
  std::ofstream(path + ".new") << json.dump();
  std::filesystem::rename(path + ".new", path);
}

std::string CodeOf(const Status& status) {
  return status ? "OK" : std::string(CodeName(status.error().code));
}

template <class T>
Status StatusOf(const Result<T>& result) {
  return result ? Status() : tl::unexpected<Error>(result.error());
}

// Calls a method of Ranks that makes this MPI call.
Status Make(Ranks& ranks, const std::string& call, Ranks::Deadline deadline) {
  if (call == "Ibcast") {
    std::string text = "from rank 0";
    return ranks.Broadcast(&text, deadline);
  }
  if (call == "Iallreduce") return StatusOf(ranks.Max(1, deadline));
  if (call == "Comm_idup") return StatusOf(ranks.Subset(true, deadline));
  return StatusOf(ranks.AllGather("text", deadline));
}

int Main(int argc, char** argv) {
  const std::string folder = argv[1];
  const std::string which = argc > 3 ? argv[3] : "111";
  int level = 0;
  MPI_Init_thread(&argc, &argv,
                  std::string(argv[2]) == "multiple" ? MPI_THREAD_MULTIPLE
                                                     : MPI_THREAD_SINGLE,
                  &level);
  const auto ranks =
      Ranks::Duplicate(MPI_COMM_WORLD, Within(std::chrono::minutes(1))).value();
  const int rank = ranks->rank();
  const bool losing = which == "lost";
  if (!losing && which.find_first_not_of("01") != std::string::npos) {
    if (rank == 1) failing = which;
    nlohmann::json json;
    if (which != "absent" || rank != 2) {
      const Status made = Make(*ranks, which, Within(milliseconds(700)));
      json["code"] = CodeOf(made);
      json["message"] = made ? "" : made.error().message;
    }
    json["usable"] = ranks->usable();
    if (which != "absent") {
      json["next"] =
          CodeOf(StatusOf(ranks->Max(rank, Within(milliseconds(0)))));
    }
    Tell(folder, rank, json);
    // MPI_Finalize would wait for the incomplete collective, and mpirun ends
    // all ranks once one exits without it.
    for (int r = 0; r < ranks->size(); ++r) {
      while (!std::filesystem::exists(FileOf(folder, r))) {
        std::this_thread::sleep_for(milliseconds(5));
      }
    }
    _exit(0);
  }
  const bool in = losing ? rank != 1 : which[std::size_t(rank)] == '1';
  nlohmann::json json;
  json["level"] = level;
  if (losing && rank == 2) {
    // Agrees, then goes silent.
    json["agreed"] =
        ranks->MaxOfEach({0, 0, 1}, Within(std::chrono::minutes(1)))
            .has_value();
    Tell(folder, rank, json);
    while (!std::filesystem::exists(FileOf(folder, 0))) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    _exit(0);
  }
  const auto made = ranks->Subset(
      in, Within(losing ? milliseconds(700) : milliseconds(60'000)));
  if (!made) {
    json["code"] = CodeName(made.error().code);
  } else if (*made == MPI_COMM_NULL) {
    json["members"] = 0;
  } else {
    int sum = rank;
    int size = 0;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, *made);
    MPI_Comm_size(*made, &size);
    json["members"] = size;
    json["sum"] = sum;
    MPI_Comm comm = *made;
    MPI_Comm_free(&comm);
  }
  json["usable"] = ranks->usable();
  Tell(folder, rank, json);
  // MPI_Finalize would wait for what is still in flight.
  if (losing) _exit(0);
  ranks->Close();
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
