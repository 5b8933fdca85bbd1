#include "client/session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "client/gradients/all_reduce.h"
#include "client/gradients/gradient_sum.h"
#include "client/ranks/ranks.h"
#include "client/session/agreement.h"
#include "client/session/config.h"
#include "client/session/job_link.h"
#include "client/session/plan_check.h"
#include "device/device.h"
#include "proto/convert_plan.h"
#include "proto/job_key.h"

namespace ucudnn {

std::string_view Name(PlanSource source) {
  switch (source) {
    case PlanSource::kPlanFile:
      return "plan file";
    case PlanSource::kCoordinator:
      return "coordinator";
    case PlanSource::kCache:
      return "cache";
    case PlanSource::kUndivided:
      return "undivided";
  }
  return "unknown";
}

Session::Session() = default;

Session::~Session() { ForgetActiveComm(); }

void Session::ForgetActiveComm() {
  if (!active_) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && ranks_->usable() && *active_ != MPI_COMM_NULL) {
    MPI_Comm_free(&*active_);
  }
  active_.reset();
}

Result<std::unique_ptr<Session>> Session::Create(MPI_Comm comm,
                                                 const SessionOptions& options,
                                                 Device& device) {
  std::unique_ptr<Session> session(new Session);
  session->agree_within_ = options.agree_within;
  session->device_ = &device;
  UCUDNN_ASSIGN_OR_RETURN(session->ranks_,
                          Ranks::Duplicate(comm, session->Soon()));
  session->reducer_ = std::make_unique<AllReducer>(*session->ranks_);
  UCUDNN_ASSIGN_OR_RETURN(Agreement agreed,
                          AgreeOnPlan(*session->ranks_, options, device));
  session->config_ = std::make_unique<SessionConfig>(agreed.config);
  session->index_ = static_cast<std::size_t>(session->ranks_->rank());
  session->plan_ = std::move(agreed.found.plan);
  session->source_ = agreed.found.source;
  session->reason_ = std::move(agreed.reason);
  session->job_id_ = JobIdOf(agreed.job_key);
  session->devices_ = std::move(agreed.device_ids);
  session->WarnOfFallback();
  session->WarnOfSharedDevices();
  session->StartLink(agreed.hosts, agreed.job_key);
  return session;
}

int Session::rank() const { return ranks_->rank(); }
int Session::size() const { return ranks_->size(); }

const std::string* Session::memory_plan() const {
  const DeviceMemoryPlan* const plan = MemoryPlanOf(plan_, index_);
  return plan == nullptr ? nullptr : &plan->plan;
}

BatchSize Session::first_image() const {
  BatchSize first;
  for (std::size_t r = 0; r < index_; ++r) {
    first = first + plan_.ranks[r].batch;
  }
  return first;
}

std::chrono::steady_clock::time_point Session::Soon() const {
  return std::chrono::steady_clock::now() + agree_within_;
}

// The plan may come from elsewhere than the job asks for it. On rank 0, whose
// environment counts.
void Session::WarnOfFallback() const {
  if (rank() != 0) return;
  bool as_asked = source_ == PlanSource::kCache ||
                  config_->request.policy == BatchPolicy::kUndivided;
  if (!config_->coordinators.empty()) {
    as_asked = source_ == PlanSource::kCoordinator;
  }
  if (!config_->plan_file.empty()) as_asked = source_ == PlanSource::kPlanFile;
  if (as_asked) return;
  const std::string& name =
      config_->job_name.empty() ? config_->request.network : config_->job_name;
  const char* runs = "";
  if (source_ == PlanSource::kUndivided) {
    runs = config_->kernels.empty() ? " runs undivided and without kernels"
                                    : " runs undivided";
  }
  std::fprintf(stderr, "ucudnn: job %s%s: %s\n", name.c_str(), runs,
               reason_.c_str());
}

// The texts are the same on every rank.
void Session::WarnOfSharedDevices() {
  std::map<std::string, std::vector<int>> ranks_of;
  for (std::size_t r = 0; r < devices_.size(); ++r) {
    ranks_of[WholeDevice(devices_[r])].push_back(static_cast<int>(r));
  }
  for (const auto& [device, ranks] : ranks_of) {
    if (ranks.size() < 2) continue;
    plan_.reasons.push_back(fmt::format(
        "ranks {} share device {}: each is predicted as if it had the device "
        "alone; give every rank a device of its own",
        fmt::join(ranks, ", "), device));
  }
}

void Session::StartLink(const std::vector<std::string>& hosts,
                        const std::string& job_key) {
  if (config_->coordinators.empty()) return;
  JobLink::Options options;
  options.coordinators = config_->coordinators;
  options.credentials = config_->credentials;
  options.job_id = job_id_;
  options.job_key = job_key;
  options.rank = rank();
  if (rank() == 0) {
    v1::RegisterJobRequest& job = options.registration.emplace();
    job.set_job_id(job_id_);
    job.set_name(config_->job_name.empty() ? plan_.request.network
                                           : config_->job_name);
    *job.mutable_request() = ToProto(plan_.request);
    job.set_plan_id(plan_.id);
    job.set_auto_replan(config_->auto_replan);
    job.set_source(std::string(Name(source_)));
    job.set_reason(reason_);
    for (std::size_t r = 0; r < devices_.size(); ++r) {
      v1::JobRank& member = *job.add_ranks();
      member.set_rank(static_cast<std::int32_t>(r));
      member.set_device_id(devices_[r]);
      member.set_device_kind(plan_.ranks[r].device_kind);
      member.set_host(hosts[r]);
    }
  }
  // If this fails, as when this host lacks the credentials, the rank runs
  // unreported.
  if (auto link = JobLink::Start(std::move(options))) {
    link_ = *std::move(link);
  } else {
    plan_.reasons.push_back(
        fmt::format("the steps of rank {} are not reported: {}", rank(),
                    link.error().message));
  }
}

void Session::ReportStep(std::chrono::duration<double, std::milli> time) {
  if (link_ == nullptr) return;
  link_->Report(revision_, std::chrono::duration_cast<Nanoseconds>(time));
}

Status Session::CheckOffer(const JobPlan& plan) const {
  // `ucudnn replan` may change what the job started with.
  JobRequest request = plan_.request;
  request.batch = plan.request.batch;
  request.workspace_limit = plan.request.workspace_limit;
  request.total_workspace = plan.request.total_workspace;
  request.policy = plan.request.policy;
  if (request.memory && plan.request.memory) {
    request.memory->budgets = plan.request.memory->budgets;
  }
  return CheckPlan(plan, request, config_->kernels, true);
}

Result<bool> Session::Refresh(const Adoption& adopt) {
  std::optional<JobLink::Offer> offer;
  if (link_ != nullptr) offer = link_->TakeOffer();
  if (offer) {
    if (const Status fits = CheckOffer(offer->plan); !fits) {
      link_->Answer(*offer, fits.error().message);
      offer.reset();
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t revision,
                          ranks_->Max(offer ? offer->revision : 0, Soon()));
  if (revision == 0) return false;
  UCUDNN_ASSIGN_OR_RETURN(
      Result<JobPlan> shared,
      ShareIfRunnable(*ranks_, offer ? offer->plan : JobPlan(),
                      config_->kernels, *device_, Soon()));
  if (!shared) {
    if (offer) link_->Answer(*offer, shared.error().message);
    return false;
  }
  JobPlan old_plan = std::exchange(plan_, *std::move(shared));
  const std::int64_t old_revision = std::exchange(revision_, revision);
  const PlanSource old_source =
      std::exchange(source_, PlanSource::kCoordinator);
  std::string old_reason = std::exchange(
      reason_,
      fmt::format("plan {}, revision {} of the job", plan_.id, revision_));
  const Result<Status> adopted = adopt ? adopt() : Status();
  if (!adopted || !*adopted) {
    plan_ = std::move(old_plan);
    revision_ = old_revision;
    source_ = old_source;
    reason_ = std::move(old_reason);
    UCUDNN_RETURN_IF_ERROR(adopted);
    if (offer) link_->Answer(*offer, adopted->error().message);
    return false;
  }
  ForgetActiveComm();
  WarnOfSharedDevices();
  if (offer) link_->Answer(*offer, "");
  return true;
}

const std::string& Session::sum_method() const { return reducer_->method(); }

Status Session::AllReduceGradients(std::span<float> gradients, void* stream) {
  return reducer_->Sum(gradients, weight(), stream, Soon());
}

Status Session::AllReduceGradients(std::span<double> gradients, void* stream) {
  return reducer_->Sum(gradients, weight(), stream, Soon());
}

Status Session::RefuseGradients(Error error) {
  UCUDNN_RETURN_IF_ERROR(ScaleAndSum<float>(
      *ranks_, {}, weight(), Soon(), tl::unexpected<Error>(std::move(error))));
  return {};
}

Result<MPI_Comm> Session::ActiveComm() {
  if (!active_) {
    UCUDNN_ASSIGN_OR_RETURN(active_,
                            ranks_->Subset(batch() > BatchSize(0), Soon()));
  }
  return *active_;
}

Status Session::Finalize() {
  // A barrier, so that no rank frees what another still uses.
  const Status all = ranks_->Barrier(Soon());
  if (link_ != nullptr) link_->Finish();
  link_.reset();
  UCUDNN_RETURN_IF_ERROR(all);
  ForgetActiveComm();
  // Free GPU objects while the program's context still exists.
  reducer_->Free();
  ranks_->Close();
  return {};
}

}  // namespace ucudnn
