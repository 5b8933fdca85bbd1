// Sessions of the C interface. ucudnn/ucudnn.h and ucudnn/mpi.h document each
// function.

#include "client/session/session.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "client/c_api/error.h"
#include "client/c_api/options.h"
#include "client/ranks/rank_device.h"
#include "device/device.h"
#include "proto/convert_plan.h"
#include "ucudnn/mpi.h"

using ucudnn::Code;
using ucudnn::Error;
using ucudnn::Fail;
using ucudnn::Result;
using ucudnn::Status;
using ucudnn::c_api::Guard;
using ucudnn::c_api::IsNull;

struct ucudnn_options {
  ucudnn::c_api::Options values;
};

struct ucudnn_session {
  std::unique_ptr<ucudnn::Device> device;  // outlives the session
  std::unique_ptr<ucudnn::Session> session;
  std::string device_kind;
  mutable ucudnn::Error error;
  // Built on request; dropped when the plan changes.
  std::string plan_json;
  mutable std::map<size_t, std::string> problems;

  void Forget() {
    plan_json.clear();
    problems.clear();
  }
  const char* problem(size_t index) const {
    const auto& problem = kernel(index)->problem;
    if (!problem) return "";
    const auto [text, added] = problems.try_emplace(index);
    if (added) text->second = ToString(*problem);
    return text->second.c_str();
  }

  const ucudnn::KernelPlan* kernel(size_t index) const {
    const auto& kernels = session->rank_plan().workspace->kernels;
    return index < kernels.size() ? &kernels[index] : nullptr;
  }
};

namespace {

// Fills the caller's version of the structure, which may be shorter or longer
// than ours, by the rule in ucudnn/ucudnn.h.
template <class T>
Status Fill(const T& value, T* out, const char* what) {
  const size_t theirs = out->struct_size;
  constexpr size_t kMost = 4096;  // larger than any version will be
  if (theirs < sizeof(size_t) || theirs > kMost) {
    return Fail(Code::kInvalidArgument,
                "{}.struct_size is {}; set it to sizeof({}) first", what,
                theirs, what);
  }
  const size_t filled = std::min(theirs, sizeof(T));
  std::memset(out, 0, theirs);
  std::memcpy(out, &value, filled);
  out->struct_size = filled;
  return {};
}

double Ms(ucudnn::Nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

Result<std::unique_ptr<ucudnn_session>> Init(
    MPI_Fint comm, const ucudnn::c_api::Options& options) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) MPI_Finalized(&finalized);
  const MPI_Comm all =
      initialized != 0 && finalized == 0 ? MPI_Comm_f2c(comm) : MPI_COMM_NULL;
  const auto soon =
      std::chrono::steady_clock::now() + options.session.agree_within;
  auto session = std::make_unique<ucudnn_session>();
  UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<ucudnn::Ranks> ranks,
                          ucudnn::Ranks::Duplicate(all, soon));
  ucudnn::RankDeviceOptions device_options;
  device_options.device = options.device;
  UCUDNN_ASSIGN_OR_RETURN(ucudnn::RankDevice opened,
                          ucudnn::OpenRankDevice(*ranks, device_options, soon));
  session->device = std::move(opened.device);
  session->device_kind = ToString(session->device->info().kind);
  ucudnn::SessionOptions wanted = options.session;
  if (!options.network_name.empty()) {
    wanted.network.name = options.network_name;
  }
  UCUDNN_ASSIGN_OR_RETURN(
      session->session, ucudnn::Session::Create(all, wanted, *session->device));
  return session;
}

// Runs `body` on the session and stores its error there.
template <class Session, class Body>
int Call(Session* session, const Body& body) {
  if (session == nullptr) {
    return Guard([] { return Status(IsNull("session")); });
  }
  return Guard(session->error, [&] { return body(*session->session); });
}

const ucudnn::Error& LastError(const ucudnn_session* session) {
  return session == nullptr ? ucudnn::c_api::ThreadError() : session->error;
}

}  // namespace

const char* ucudnn_last_error_message(const ucudnn_session* session) {
  return LastError(session).message.c_str();
}

int64_t ucudnn_last_error_least(const ucudnn_session* session) {
  return LastError(session).least.value_or(-1);
}

int ucudnn_options_create(ucudnn_options** options) {
  return Guard([&]() -> Status {
    if (options == nullptr) return IsNull("options");
    *options = nullptr;
    *options = new ucudnn_options;
    return {};
  });
}

void ucudnn_options_destroy(ucudnn_options* options) { delete options; }

int ucudnn_options_set(ucudnn_options* options, const char* name,
                       const char* value) {
  return Guard([&]() -> Status {
    if (options == nullptr) return IsNull("options");
    if (name == nullptr) return IsNull("name");
    if (value == nullptr) return IsNull(name);
    return ucudnn::c_api::SetOption(&options->values, name, value);
  });
}

int ucudnn_session_init_f(MPI_Fint comm, const ucudnn_options* options,
                          ucudnn_session** session) {
  return Guard([&]() -> Status {
    if (session == nullptr) return IsNull("session");
    *session = nullptr;
    if (options == nullptr) return IsNull("options");
    UCUDNN_ASSIGN_OR_RETURN(auto made, Init(comm, options->values));
    *session = made.release();
    return {};
  });
}

int ucudnn_session_rank(const ucudnn_session* session) {
  return session == nullptr ? -1 : session->session->rank();
}
int ucudnn_session_size(const ucudnn_session* session) {
  return session == nullptr ? 0 : session->session->size();
}
int64_t ucudnn_session_batch(const ucudnn_session* session) {
  return session == nullptr ? 0 : session->session->batch().count();
}
int64_t ucudnn_session_first_image(const ucudnn_session* session) {
  return session == nullptr ? 0 : session->session->first_image().count();
}
double ucudnn_session_weight(const ucudnn_session* session) {
  return session == nullptr ? 0 : session->session->weight();
}
int64_t ucudnn_session_global_batch(const ucudnn_session* session) {
  return session == nullptr ? 0
                            : session->session->plan().request.batch.count();
}
double ucudnn_session_predicted_ms(const ucudnn_session* session) {
  return session == nullptr
             ? 0
             : Ms(session->session->rank_plan().workspace->total_time);
}
double ucudnn_session_predicted_step_ms(const ucudnn_session* session) {
  return session == nullptr ? 0 : Ms(session->session->plan().predicted);
}
int64_t ucudnn_session_revision(const ucudnn_session* session) {
  return session == nullptr ? 0 : session->session->revision();
}

const char* ucudnn_session_source(const ucudnn_session* session) {
  // The names are string literals, and so end in a zero byte.
  return session == nullptr ? "" : Name(session->session->source()).data();
}
const char* ucudnn_session_reason(const ucudnn_session* session) {
  return session == nullptr ? "" : session->session->reason().c_str();
}
const char* ucudnn_session_sum_method(const ucudnn_session* session) {
  return session == nullptr ? "" : session->session->sum_method().c_str();
}
const char* ucudnn_session_note(const ucudnn_session* session, size_t index) {
  if (session == nullptr) return nullptr;
  const auto& reasons = session->session->plan().reasons;
  return index < reasons.size() ? reasons[index].c_str() : nullptr;
}
const char* ucudnn_session_job_id(const ucudnn_session* session) {
  return session == nullptr ? "" : session->session->job_id().c_str();
}
const char* ucudnn_session_device(const ucudnn_session* session) {
  return session == nullptr ? "" : session->device->info().id.c_str();
}
const char* ucudnn_session_device_kind(const ucudnn_session* session) {
  return session == nullptr ? "" : session->device_kind.c_str();
}

const char* ucudnn_session_plan_json(ucudnn_session* session) {
  const int failed = Call(session, [&](const ucudnn::Session& s) -> Status {
    if (session->plan_json.empty()) {
      session->plan_json = ToJsonText(s.plan());
    }
    return {};
  });
  return failed != 0 ? "" : session->plan_json.c_str();
}

const char* ucudnn_session_memory_plan(const ucudnn_session* session) {
  const std::string* const plan =
      session == nullptr ? nullptr : session->session->memory_plan();
  return plan == nullptr ? "" : plan->c_str();
}

size_t ucudnn_session_kernels(const ucudnn_session* session) {
  return session == nullptr
             ? 0
             : session->session->rank_plan().workspace->kernels.size();
}

int ucudnn_session_kernel(const ucudnn_session* session, size_t index,
                          ucudnn_kernel* kernel) {
  return Call(session, [&](const ucudnn::Session&) -> Status {
    if (kernel == nullptr) return IsNull("kernel");
    const ucudnn::KernelPlan* plan = session->kernel(index);
    if (plan == nullptr) {
      return Fail(Code::kOutOfRange, "no kernel {}; the plan has {}", index,
                  ucudnn_session_kernels(session));
    }
    ucudnn_kernel value = {};
    value.layer = plan->layer.c_str();
    value.op = Name(plan->op).data();
    value.precision = Name(plan->precision).data();
    value.layout = Name(plan->layout).data();
    value.problem = session->problem(index);
    value.workspace_bytes = plan->workspace.count();
    value.offset_bytes = plan->offset ? plan->offset->count() : -1;
    value.time_us = ucudnn::Microseconds(plan->time);
    value.micro_batches = plan->micro_batches.size();
    return Fill(value, kernel, "ucudnn_kernel");
  });
}

int ucudnn_session_micro_batch(const ucudnn_session* session, size_t kernel,
                               size_t index, ucudnn_micro_batch* micro_batch) {
  return Call(session, [&](const ucudnn::Session&) -> Status {
    if (micro_batch == nullptr) return IsNull("micro_batch");
    const ucudnn::KernelPlan* plan = session->kernel(kernel);
    if (plan == nullptr || index >= plan->micro_batches.size()) {
      return Fail(Code::kOutOfRange, "no kernel {}, or no micro-batch {} in it",
                  kernel, index);
    }
    const ucudnn::MicroBatch& micro = plan->micro_batches[index];
    ucudnn_micro_batch value = {};
    value.batch = micro.batch.count();
    value.count = micro.count;
    value.algorithm = micro.algorithm.name.c_str();
    value.math = micro.algorithm.math.c_str();
    value.precision = Name(micro.algorithm.precision).data();
    value.workspace_bytes = micro.workspace.count();
    value.time_us = ucudnn::Microseconds(micro.time);
    return Fill(value, micro_batch, "ucudnn_micro_batch");
  });
}

int ucudnn_session_report_step(ucudnn_session* session, double milliseconds) {
  return Call(session, [&](ucudnn::Session& s) -> Status {
    if (!(milliseconds >= 0 && std::isfinite(milliseconds))) {
      return Fail(Code::kInvalidArgument,
                  "the step time is {} ms; a finite number from 0 is accepted",
                  milliseconds);
    }
    s.ReportStep(std::chrono::duration<double, std::milli>(milliseconds));
    return {};
  });
}

int ucudnn_session_refresh(ucudnn_session* session, int* changed) {
  return Call(session, [&](ucudnn::Session& s) -> Status {
    if (changed != nullptr) *changed = 0;
    UCUDNN_ASSIGN_OR_RETURN(const bool refreshed, s.Refresh());
    if (refreshed) session->Forget();
    if (changed != nullptr) *changed = refreshed ? 1 : 0;
    return {};
  });
}

int ucudnn_session_active_comm_f(ucudnn_session* session, MPI_Fint* comm) {
  return Call(session, [&](ucudnn::Session& s) -> Status {
    // Even without a place for the result, the other ranks wait for this one.
    UCUDNN_ASSIGN_OR_RETURN(const MPI_Comm active, s.ActiveComm());
    if (comm == nullptr) return IsNull("comm");
    *comm = MPI_Comm_c2f(active);
    return {};
  });
}

int ucudnn_session_allreduce(ucudnn_session* session, void* gradients,
                             size_t count, int type) {
  return ucudnn_session_allreduce_device(session, gradients, count, type,
                                         nullptr);
}

int ucudnn_session_allreduce_device(ucudnn_session* session, void* gradients,
                                    size_t count, int type, void* stream) {
  return Call(session, [&](ucudnn::Session& s) -> Status {
    if (type == UCUDNN_FLOAT32) {
      return s.AllReduceGradients(
          std::span(static_cast<float*>(gradients), count), stream);
    }
    if (type == UCUDNN_FLOAT64) {
      return s.AllReduceGradients(
          std::span(static_cast<double*>(gradients), count), stream);
    }
    return s.RefuseGradients(
        {Code::kInvalidArgument,
         fmt::format(
             "type is {}; UCUDNN_FLOAT32 and UCUDNN_FLOAT64 are accepted",
             type)});
  });
}

int ucudnn_session_finalize(ucudnn_session* session) {
  if (session == nullptr) return UCUDNN_OK;
  const std::unique_ptr<ucudnn_session> ending(session);
  return Guard([&] { return session->session->Finalize(); });
}
