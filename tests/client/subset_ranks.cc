// One rank of ranks_test's jobs: makes a communicator of some of the ranks.
//
//   subset_ranks FOLDER single|multiple CASE
//
// CASE names the ranks that are in, such as 101, or is "lost": 101, but the
// last rank is lost after the agreement.

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "client/ranks.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;

Ranks::Deadline Within(milliseconds time) {
  return std::chrono::steady_clock::now() + time;
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
  const bool in = losing ? rank != 1 : which[std::size_t(rank)] == '1';
  const std::string path = folder + "/rank";
  nlohmann::json json;
  json["level"] = level;
  if (losing && rank == 2) {
    // Agrees, and is never heard of again.
    json["agreed"] =
        ranks->MaxOfEach({0, 0, 1}, Within(std::chrono::minutes(1)))
            .has_value();
    std::ofstream(path + "2.json") << json.dump();
    while (!std::filesystem::exists(path + "0.json")) {
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
  std::ofstream(path + std::to_string(rank) + ".json.new") << json.dump();
  std::filesystem::rename(path + std::to_string(rank) + ".json.new",
                          path + std::to_string(rank) + ".json");
  // What is still under way would make MPI_Finalize wait.
  if (losing) _exit(0);
  ranks->Close();
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
