#include "client/session.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/plan_check.h"
#include "client/ranks.h"
#include "client/session_agreement.h"
#include "client/session_config.h"
#include "device/device.h"

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

Session::~Session() {
  if (ranks_ == nullptr) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && ranks_->usable() && active_ &&
      *active_ != MPI_COMM_NULL) {
    MPI_Comm_free(&*active_);
  }
}

Result<std::unique_ptr<Session>> Session::Create(MPI_Comm comm,
                                                 const SessionOptions& options,
                                                 Device& device) {
  std::unique_ptr<Session> session(new Session);
  session->agree_within_ = options.agree_within;
  session->device_ = &device;
  UCUDNN_ASSIGN_OR_RETURN(session->ranks_,
                          Ranks::Duplicate(comm, session->Soon()));
  UCUDNN_ASSIGN_OR_RETURN(Agreement agreed,
                          AgreeOnPlan(*session->ranks_, options, device));
  session->config_ = std::make_unique<SessionConfig>(agreed.config);
  session->index_ = static_cast<std::size_t>(session->ranks_->rank());
  session->plan_ = std::move(agreed.found.plan);
  session->source_ = agreed.found.source;
  session->reason_ = std::move(agreed.reason);
  session->job_id_ = std::move(agreed.job_id);
  session->devices_ = std::move(agreed.device_ids);
  session->WarnOfSharedDevices();
  return session;
}

int Session::rank() const { return ranks_->rank(); }
int Session::size() const { return ranks_->size(); }

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

// The same texts on every rank.
void Session::WarnOfSharedDevices() {
  std::map<std::string, std::vector<int>> ranks_of;
  for (std::size_t r = 0; r < devices_.size(); ++r) {
    ranks_of[devices_[r]].push_back(static_cast<int>(r));
  }
  ranks_on_device_ = ranks_of[devices_[index_]];
  for (const auto& [device, ranks] : ranks_of) {
    if (ranks.size() < 2) continue;
    plan_.reasons.push_back(fmt::format(
        "ranks {} share device {}: each is predicted as if it had the device "
        "alone; give every rank a device of its own",
        fmt::join(ranks, ", "), device));
  }
}

void Session::ReportStep(std::chrono::duration<double, std::milli> /*time*/) {}

Result<bool> Session::Refresh() {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t offered, ranks_->Max(0, Soon()));
  return offered > revision_;
}

Status Session::AllReduceGradients(std::span<float> gradients) {
  return ranks_->ScaleAndSum(gradients, weight(), Soon());
}

Status Session::AllReduceGradients(std::span<double> gradients) {
  return ranks_->ScaleAndSum(gradients, weight(), Soon());
}

Result<MPI_Comm> Session::ActiveComm() {
  if (!active_) {
    UCUDNN_ASSIGN_OR_RETURN(active_,
                            ranks_->Subset(batch() > BatchSize(0), Soon()));
  }
  return *active_;
}

Status Session::Finalize() {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t all, ranks_->Max(0, Soon()));
  static_cast<void>(all);
  if (active_ && *active_ != MPI_COMM_NULL) MPI_Comm_free(&*active_);
  active_.reset();
  ranks_->Close();
  return {};
}

}  // namespace ucudnn
