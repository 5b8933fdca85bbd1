#include "client/session/plan_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/network.h"
#include "base/plan/plan_file.h"
#include "client/rpc/connection.h"
#include "client/session/plan_check.h"
#include "proto/convert_plan.h"
#include "solver/version.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// Time left of a budget that several calls share.
class Budget {
 public:
  explicit Budget(Milliseconds total) : end_(Clock::now() + total) {}
  Milliseconds Left() const {
    return std::max(
        std::chrono::duration_cast<Milliseconds>(end_ - Clock::now()),
        Milliseconds(0));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

}  // namespace

std::optional<FoundPlan> PlanSearch::Next() {
  while (step_ < 3) {
    const int step = step_++;
    if (step == 0 && config_.plan_file.empty()) continue;
    if (step == 2 && config_.cache_dir.empty()) {
      passed_over_.emplace_back("there is no cache directory");
      continue;
    }
    Result<FoundPlan> found = step == 0   ? FromFile()
                              : step == 1 ? FromCoordinator()
                                          : FromCache();
    if (found) {
      where_ = found->where;
      return *std::move(found);
    }
    passed_over_.push_back(found.error().message);
  }
  return std::nullopt;
}

void PlanSearch::Reject(std::string why) {
  passed_over_.push_back(fmt::format("{}: {}", where_, why));
}

void PlanSearch::Accept(const FoundPlan& found) {
  if (found.source != PlanSource::kCoordinator || config_.cache_dir.empty()) {
    return;
  }
  if (const Status kept = WritePlanFile(cache_path(), found.plan); !kept) {
    passed_over_.push_back(
        fmt::format("the plan is not cached: {}", kept.error().message));
  }
}

std::string PlanSearch::reason() const {
  std::string text = fmt::format("{}", fmt::join(passed_over_, "; "));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string PlanSearch::cache_path() const {
  if (config_.cache_dir.empty()) return {};
  return fmt::format("{}/plan-solver{}-{}.json", config_.cache_dir,
                     kSolverVersion,
                     ShortHash(ToProto(config_.request).SerializeAsString() +
                               KernelsText(config_.kernels)));
}

Status PlanSearch::Check(const FoundPlan& found, bool with_limits) const {
  Status fits =
      CheckPlan(found.plan, config_.request, config_.kernels, with_limits);
  if (!fits) {
    return Within(fmt::format("{} does not fit the job", found.where),
                  std::move(fits).error());
  }
  return {};
}

Result<FoundPlan> PlanSearch::FromFile() {
  auto plan = ReadPlanFile(config_.plan_file);
  if (!plan) return Within("plan file", std::move(plan).error());
  FoundPlan found;
  found.source = PlanSource::kPlanFile;
  found.where = fmt::format("plan file {}", config_.plan_file);
  found.plan = *std::move(plan);
  UCUDNN_RETURN_IF_ERROR(Check(found, config_.limits_chosen));
  return found;
}

Result<FoundPlan> PlanSearch::FromCoordinator() {
  if (config_.coordinators.empty()) {
    return Fail(Code::kUnavailable,
                "no coordinator is named (UCUDNN_COORDINATOR)");
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const auto connection,
      Connection::Open(config_.coordinators,
                       {.credentials = config_.credentials}));
  const Budget budget(config_.ask_within);
  const auto policy = [&](Milliseconds await) {
    RetryPolicy p;
    p.budget = budget.Left();
    // Each of the list gets its turn.
    const auto others = std::count(config_.coordinators.begin(),
                                   config_.coordinators.end(), ',');
    p.attempt_timeout =
        std::max(config_.ask_within / (others + 1), Milliseconds(1));
    p.await_measurements = await;
    return p;
  };
  const v1::PlanRequest request = ToProto(config_.request);
  auto plan =
      connection->CreatePlan(request, policy(config_.await_measurements));
  if (!plan && plan.error().code == Code::kNotFound &&
      !config_.network.layers.empty()) {
    v1::PutNetworkRequest put;
    put.set_name(config_.network.name);
    put.set_content(ToCsv(config_.network));
    auto known = connection->PutNetwork(put, policy(Milliseconds(0)));
    if (!known) {
      return Within(fmt::format("registering network {} with coordinator {}",
                                config_.network.name, connection->name()),
                    std::move(known).error());
    }
    plan = connection->CreatePlan(request, policy(config_.await_measurements));
  }
  if (!plan) {
    Error error = std::move(plan).error();
    if (error.message.find(connection->name()) != std::string::npos) {
      return tl::unexpected<Error>(std::move(error));
    }
    return Within(fmt::format("coordinator {}", connection->name()),
                  std::move(error));
  }
  FoundPlan found;
  found.source = PlanSource::kCoordinator;
  found.where =
      fmt::format("plan {} of coordinator {}", plan->id(), connection->name());
  auto decoded = FromProto(*plan);
  if (!decoded) return Within(found.where, std::move(decoded).error());
  found.plan = *std::move(decoded);
  UCUDNN_RETURN_IF_ERROR(Check(found, true));
  return found;
}

Result<FoundPlan> PlanSearch::FromCache() {
  const std::string path = cache_path();
  auto plan = ReadPlanFile(path);
  if (!plan) return Within("cached plan", std::move(plan).error());
  FoundPlan found;
  found.source = PlanSource::kCache;
  found.where = fmt::format("cached plan {} in {}", plan->id, path);
  found.plan = *std::move(plan);
  UCUDNN_RETURN_IF_ERROR(Check(found, true));
  return found;
}

}  // namespace ucudnn
