// One rank of job_test's jobs: creates a session on a part of this machine's
// CPU through the C interface, as installed programs do, and runs steps until
// it is told to stop or something fails.
//
//   job_ranks FOLDER [OPTION=VALUE...]
//
// Writes FOLDER/rankN.json after init and after each step, and pid_N at start.
// Stops after the step in which FOLDER/stop appears.

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "ucudnn/mpi.hpp"

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

class Rank {
 public:
  Rank(std::string folder, int rank) : folder_(std::move(folder)), rank_(rank) {
    Write("pid_", std::to_string(getpid()));
  }

  void Init(const ucudnn::mpi::Options& options) {
    start_ = Clock::now();
    session_ = std::make_unique<ucudnn::mpi::Session>(MPI_COMM_WORLD, options);
    state_["init_ms"] = Since(start_);
    state_["device_kind"] = session_->device_kind();
    state_["notes"] = session_->notes();
    state_["steps"] = 0;
    state_["slowest_ms"] = 0.0;
    state_["slowest_report_us"] = 0.0;
    Tell();
  }

  // Whether there is another step.
  bool Step() {
    start_ = Clock::now();
    // The second value is whether rank 0 was told to stop, the third that all
    // ranks have the same revision.
    double gradients[3] = {static_cast<double>(rank_ + 1), 0,
                           static_cast<double>(session_->revision())};
    const bool stops = std::filesystem::exists(folder_ + "/stop");
    if (stops) gradients[1] = 1;
    session_->AllReduce(gradients, 3);
    state_["mean"] = gradients[0];
    if (std::abs(gradients[2] - static_cast<double>(session_->revision())) >
        1e-9) {
      state_["torn"] = true;
    }
    const auto before_report = Clock::now();
    session_->ReportStep(2.0);
    const double report_us = Since(before_report) * 1000;
    session_->Refresh();
    const double took = Since(start_);
    state_["steps"] = state_["steps"].get<int>() + 1;
    state_["slowest_ms"] = std::max(state_["slowest_ms"].get<double>(), took);
    state_["slowest_report_us"] =
        std::max(state_["slowest_report_us"].get<double>(), report_us);
    Tell();
    // The work of one step.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return gradients[1] == 0;
  }

  void Finalize() {
    start_ = Clock::now();
    session_->Finalize();
    state_["finalize_ms"] = Since(start_);
    Write("rank", state_.dump());
  }

  void Fail(const ucudnn::mpi::Error& error) {
    state_["status"] = error.status();
    state_["error"] = error.what();
    state_["error_after_ms"] = Since(start_);
    Write("rank", state_.dump());
    // MPI would wait for the lost rank for ever.
    _exit(0);
  }

 private:
  void Tell() {
    state_["batch"] = session_->batch();
    state_["global_batch"] = session_->global_batch();
    state_["weight"] = session_->weight();
    state_["revision"] = session_->revision();
    state_["source"] = session_->source();
    state_["reason"] = session_->reason();
    state_["job"] = session_->job_id();
    const std::string plan = session_->memory_plan();
    state_["memory_plan"] = plan.empty() ? Json() : Json::parse(plan);
    Write("rank", state_.dump());
  }

  // Replaced atomically.
  void Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name + std::to_string(rank_) +
                             (name == "rank" ? ".json" : "");
    std::ofstream(path + ".new") << text;
    std::rename((path + ".new").c_str(), path.c_str());
  }

  const std::string folder_;
  const int rank_;
  Clock::time_point start_;
  std::unique_ptr<ucudnn::mpi::Session> session_;
  Json state_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  Rank rank(argv[1], number);
  ucudnn::mpi::Options options;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    options.Set(word.substr(0, equals), word.substr(equals + 1));
  }
  try {
    rank.Init(options);
    while (rank.Step()) {
    }
    rank.Finalize();
  } catch (const ucudnn::mpi::Error& error) {
    rank.Fail(error);
  }
  MPI_Finalize();
  return 0;
}
