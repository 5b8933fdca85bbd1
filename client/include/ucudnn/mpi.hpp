// libucudnn's C interface for C++17 and later: objects that free themselves,
// and errors as exceptions. Everything is inline, so it works with every
// compiler's standard library. ucudnn/ucudnn.h and ucudnn/mpi.h document each
// call, its units, cost, bounds and thread safety; a method here does what the
// C function of its name does.
//
//   ucudnn::mpi::Session session(
//       MPI_COMM_WORLD,
//       ucudnn::mpi::Options().Set("network_file", "resnet18.onnx")
//                             .Set("batch", "256"));
//   while (training) {
//     ...                                     // session.batch() images
//     session.AllReduce(gradients.data(), gradients.size());
//     session.ReportStep(milliseconds);
//     if (session.Refresh()) ...              // batch() and the rest are new
//   }
//   session.Finalize();
//
// A collective call that fails throws Error on all ranks. Objects are used by
// one thread at a time.
#ifndef UCUDNN_MPI_HPP_
#define UCUDNN_MPI_HPP_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ucudnn/mpi.h"

namespace ucudnn {
namespace mpi {

class Error : public std::runtime_error {
 public:
  Error(int status, const std::string& message, std::int64_t least = -1)
      : std::runtime_error(message), status_(status), least_(least) {}
  // The error of the last call on `session`, or without one of this thread's.
  static Error Last(int status, const ucudnn_session* session) {
    return Error(status, ucudnn_last_error_message(session),
                 ucudnn_last_error_least(session));
  }
  // One of the UCUDNN_ constants, such as UCUDNN_INVALID_ARGUMENT.
  int status() const { return status_; }
  // Of UCUDNN_FAILED_PRECONDITION: the least that would do of what was limited,
  // such as bytes of workspace; -1 if it is not known.
  std::int64_t least() const { return least_; }

 private:
  int status_;
  std::int64_t least_;
};

class Options {
 public:
  Options() {
    ucudnn_options* made = nullptr;
    const int status = ucudnn_options_create(&made);
    if (status != UCUDNN_OK) {
      throw Error::Last(status, nullptr);
    }
    options_.reset(made);
  }
  // Sets an option; ucudnn_options_set lists the names. Throws Error.
  Options& Set(const std::string& name, const std::string& value) {
    const int status =
        ucudnn_options_set(options_.get(), name.c_str(), value.c_str());
    if (status != UCUDNN_OK) {
      throw Error::Last(status, nullptr);
    }
    return *this;
  }
  const ucudnn_options* get() const { return options_.get(); }

 private:
  struct Destroy {
    void operator()(ucudnn_options* options) const {
      ucudnn_options_destroy(options);
    }
  };
  std::unique_ptr<ucudnn_options, Destroy> options_;
};

// `count` executions of `algorithm` on `batch` images each, one after the
// other; fields as in ucudnn_micro_batch.
struct MicroBatch {
  std::int64_t batch = 0;
  std::int64_t count = 0;
  std::string algorithm;
  std::string math;
  std::string precision;
  std::int64_t workspace_bytes = 0;
  double time_us = 0;  // of one execution
};

// One operation of one layer; fields as in ucudnn_kernel.
struct Kernel {
  std::string layer;
  std::string op;
  std::string precision;
  std::string layout;
  std::string problem;
  std::int64_t workspace_bytes = 0;
  std::int64_t offset_bytes = -1;  // -1: has no segment
  double time_us = 0;              // 0: not measured
  std::vector<MicroBatch> micro_batches;
};

// Move-only. The destructor finalizes, which is collective, and ignores errors.
class Session {
 public:
  // Collective over `comm`. Throws Error.
  Session(MPI_Comm comm, const Options& options) {
    ucudnn_session* made = nullptr;
    const int status = ucudnn_session_init(comm, options.get(), &made);
    if (status != UCUDNN_OK) {
      throw Error::Last(status, nullptr);
    }
    session_.reset(made);
  }

  int rank() const { return ucudnn_session_rank(get()); }
  int size() const { return ucudnn_session_size(get()); }
  std::int64_t batch() const { return ucudnn_session_batch(get()); }
  std::int64_t first_image() const { return ucudnn_session_first_image(get()); }
  std::int64_t global_batch() const {
    return ucudnn_session_global_batch(get());
  }
  double weight() const { return ucudnn_session_weight(get()); }
  double predicted_ms() const { return ucudnn_session_predicted_ms(get()); }
  double predicted_step_ms() const {
    return ucudnn_session_predicted_step_ms(get());
  }
  std::int64_t revision() const { return ucudnn_session_revision(get()); }
  std::string source() const { return ucudnn_session_source(get()); }
  std::string reason() const { return ucudnn_session_reason(get()); }
  std::string sum_method() const { return ucudnn_session_sum_method(get()); }
  std::string job_id() const { return ucudnn_session_job_id(get()); }
  std::string device() const { return ucudnn_session_device(get()); }
  std::string device_kind() const { return ucudnn_session_device_kind(get()); }
  std::string plan_json() const { return ucudnn_session_plan_json(get()); }
  std::string memory_plan() const { return ucudnn_session_memory_plan(get()); }
  std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    while (const char* note = ucudnn_session_note(get(), notes.size())) {
      notes.emplace_back(note);
    }
    return notes;
  }

  // What this rank runs, in order; copies the plan. Throws Error.
  std::vector<Kernel> kernels() const {
    std::vector<Kernel> kernels(ucudnn_session_kernels(get()));
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      ucudnn_kernel kernel = {};
      kernel.struct_size = sizeof(kernel);
      Check(ucudnn_session_kernel(get(), k, &kernel));
      Kernel& out = kernels[k];
      out.layer = kernel.layer;
      out.op = kernel.op;
      out.precision = kernel.precision;
      out.layout = kernel.layout;
      out.problem = kernel.problem;
      out.workspace_bytes = kernel.workspace_bytes;
      out.offset_bytes = kernel.offset_bytes;
      out.time_us = kernel.time_us;
      for (std::size_t m = 0; m < kernel.micro_batches; ++m) {
        ucudnn_micro_batch micro = {};
        micro.struct_size = sizeof(micro);
        Check(ucudnn_session_micro_batch(get(), k, m, &micro));
        out.micro_batches.push_back({micro.batch, micro.count, micro.algorithm,
                                     micro.math, micro.precision,
                                     micro.workspace_bytes, micro.time_us});
      }
    }
    return kernels;
  }

  // How long this rank's last step took. Takes well under a microsecond.
  void ReportStep(double milliseconds) {
    Check(ucudnn_session_report_step(get(), milliseconds));
  }
  // Collective, between two steps: whether a new plan was adopted.
  bool Refresh() {
    int changed = 0;
    Check(ucudnn_session_refresh(get(), &changed));
    return changed != 0;
  }
  // Collective: sums weighted gradients in place. They may be in host or GPU
  // memory.
  void AllReduce(float* gradients, std::size_t count) {
    Check(ucudnn_session_allreduce(get(), gradients, count, UCUDNN_FLOAT32));
  }
  void AllReduce(double* gradients, std::size_t count) {
    Check(ucudnn_session_allreduce(get(), gradients, count, UCUDNN_FLOAT64));
  }
  // Collective: the same for gradients that `stream`, a CUstream or
  // cudaStream_t, produces.
  void AllReduceDevice(float* gradients, std::size_t count, void* stream) {
    Check(ucudnn_session_allreduce_device(get(), gradients, count,
                                          UCUDNN_FLOAT32, stream));
  }
  void AllReduceDevice(double* gradients, std::size_t count, void* stream) {
    Check(ucudnn_session_allreduce_device(get(), gradients, count,
                                          UCUDNN_FLOAT64, stream));
  }
  // Collective: the communicator of the ranks that have images; the session
  // owns it.
  MPI_Comm ActiveComm() {
    MPI_Comm comm = MPI_COMM_NULL;
    Check(ucudnn_session_active_comm(get(), &comm));
    return comm;
  }
  // Collective: ends the job. The session must not be used afterwards.
  void Finalize() {
    const int status = ucudnn_session_finalize(session_.release());
    if (status != UCUDNN_OK) {
      throw Error::Last(status, nullptr);
    }
  }

  // For calling the C interface directly.
  ucudnn_session* get() const { return session_.get(); }

 private:
  void Check(int status) const {
    if (status != UCUDNN_OK) {
      throw Error::Last(status, get());
    }
  }

  struct End {
    void operator()(ucudnn_session* session) const {
      ucudnn_session_finalize(session);
    }
  };
  std::unique_ptr<ucudnn_session, End> session_;
};

}  // namespace mpi
}  // namespace ucudnn

#endif  // UCUDNN_MPI_HPP_
