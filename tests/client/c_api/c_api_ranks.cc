// One rank of c_api_test's jobs: a session through the C interface, used as
// CASE says, with the statuses and messages written to FOLDER/rankN.json.
//
//   c_api_ranks FOLDER CASE

#include <mpi.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "ucudnn/mpi.h"

namespace {

using Json = nlohmann::json;

constexpr const char* kNetwork =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,4,3,3,1,1,1,1,1\n";

Json Outcome(const ucudnn_session* session, int status) {
  return {{"status", status},
          {"message", status == 0 ? "" : ucudnn_last_error_message(session)}};
}

ucudnn_session* Open() {
  ucudnn_options* options = nullptr;
  ucudnn_options_create(&options);
  ucudnn_options_set(options, "network", "tiny");
  ucudnn_options_set(options, "network_csv", kNetwork);
  ucudnn_options_set(options, "batch", "4");
  ucudnn_options_set(options, "device", "cpu:1");
  ucudnn_session* session = nullptr;
  ucudnn_session_init(MPI_COMM_WORLD, options, &session);
  ucudnn_options_destroy(options);
  return session;
}

// A job without a network, and one with a plan file that does not exist.
Json NamedWrongly() {
  const auto init = [](const char* name, const char* value) {
    ucudnn_options* options = nullptr;
    ucudnn_options_create(&options);
    ucudnn_options_set(options, "batch", "4");
    ucudnn_options_set(options, "device", "cpu:1");
    ucudnn_options_set(options, name, value);
    if (std::strcmp(name, "plan_file") == 0) {
      ucudnn_options_set(options, "network_csv", kNetwork);
    }
    ucudnn_session* session = nullptr;
    const int status = ucudnn_session_init(MPI_COMM_WORLD, options, &session);
    ucudnn_options_destroy(options);
    Json json = Outcome(nullptr, status);
    ucudnn_session_finalize(session);
    return json;
  };
  return {{"no_network", init("job_name", "night")},
          {"no_plan_file", init("plan_file", "/none/plan.json")}};
}

// Rank 1 names no type that exists; then all ranks sum properly.
Json UnknownType(ucudnn_session* session, int rank) {
  double gradients[1] = {1};
  Json json;
  json["refused"] = Outcome(
      session, ucudnn_session_allreduce(session, gradients, 1,
                                        rank == 1 ? 7 : UCUDNN_FLOAT64));
  gradients[0] = 1;
  json["next"] = Outcome(
      session, ucudnn_session_allreduce(session, gradients, 1, UCUDNN_FLOAT64));
  json["mean"] = gradients[0];
  return json;
}

// Rank 1 has no place for the communicator.
Json NullComm(ucudnn_session* session, int rank) {
  MPI_Fint comm = 0;
  Json json;
  json["call"] = Outcome(session, ucudnn_session_active_comm_f(
                                      session, rank == 1 ? nullptr : &comm));
  return json;
}

// The structure of an older, the same and a newer version.
Json StructSizes(ucudnn_session* session) {
  struct Newer {
    ucudnn_kernel known;
    unsigned char added[16];
  };
  Json json;
  for (const std::size_t size : {offsetof(ucudnn_kernel, precision),
                                 sizeof(ucudnn_kernel), sizeof(Newer)}) {
    Newer kernel;
    std::memset(&kernel, 0xAA, sizeof kernel);
    kernel.known.struct_size = size;
    Json one =
        Outcome(session, ucudnn_session_kernel(session, 0, &kernel.known));
    one["filled"] = kernel.known.struct_size;
    one["layer"] = kernel.known.layer;
    const auto* bytes = reinterpret_cast<const unsigned char*>(&kernel);
    // Beyond the library's structure; beyond the caller's.
    one["added"] = kernel.added[0];
    one["beyond"] = size < sizeof kernel ? bytes[size] : 0xAA;
    json["sizes"].push_back(one);
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{1} << 20}) {
    ucudnn_kernel kernel;
    kernel.struct_size = size;
    json["refused"].push_back(
        Outcome(session, ucudnn_session_kernel(session, 0, &kernel)));
  }
  json["known_size"] = sizeof(ucudnn_kernel);
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string which = argv[2];
  ucudnn_session* const session = Open();
  Json json;
  if (session == nullptr) {
    json["error"] = ucudnn_last_error_message(nullptr);
  } else if (which == "unknown-type") {
    json = UnknownType(session, rank);
  } else if (which == "named-wrongly") {
    json = NamedWrongly();
  } else if (which == "null-comm") {
    json = NullComm(session, rank);
  } else {
    json = StructSizes(session);
  }
  std::ofstream(argv[1] + ("/rank" + std::to_string(rank)) + ".json")
      << json.dump();
  ucudnn_session_finalize(session);
  MPI_Finalize();
  return 0;
}
