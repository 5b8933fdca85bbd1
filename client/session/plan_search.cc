#include "client/session/plan_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/files/file.h"
#include "base/network.h"
#include "base/plan/plan_json.h"
#include "client/config/coordinators.h"
#include "client/session/plan_check.h"
#include "proto/caller.h"
#include "proto/convert_plan.h"
#include "solver/version.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

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

Result<std::optional<PlanSearch::Found>> PlanSearch::Next() {
  while (step_ < 3) {
    const int step = step_++;
    UCUDNN_ASSIGN_OR_RETURN(std::optional<Found> found, step == 0 ? FromFile()
                                                        : step == 1
                                                            ? FromCoordinator()
                                                            : FromCache());
    if (!found) continue;
    where_ = found->where;
    return found;
  }
  return std::nullopt;
}

void PlanSearch::Reject(std::string why) {
  passed_over_.push_back(fmt::format("{}: {}", where_, why));
}

Status PlanSearch::Accept(const Found& found) {
  if (found.source != PlanSource::kCoordinator || config_.cache_dir.empty()) {
    return {};
  }
  return ReplaceFile(cache_path(), ToJsonText(found.plan));
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

std::optional<PlanSearch::Found> PlanSearch::IfFitting(Found found,
                                                       bool with_limits) {
  const Status fits =
      CheckPlan(found.plan, config_.request, config_.kernels, with_limits);
  if (fits) return found;
  passed_over_.push_back(fmt::format("{} does not fit the job: {}", found.where,
                                     fits.error().message));
  return std::nullopt;
}

Result<std::optional<PlanSearch::Found>> PlanSearch::FromFile() {
  if (config_.plan_file.empty()) return std::nullopt;
  auto plan = OfInput(ReadPlanFile(config_.plan_file));
  if (!plan) return Within("plan file", std::move(plan).error());
  Found found;
  found.source = PlanSource::kPlanFile;
  found.where = fmt::format("plan file {}", config_.plan_file);
  found.plan = *std::move(plan);
  return IfFitting(std::move(found), config_.limits_chosen);
}

Result<std::optional<PlanSearch::Found>> PlanSearch::FromCoordinator() {
  if (config_.coordinators.empty()) {
    passed_over_.emplace_back("no coordinator is named (UCUDNN_COORDINATOR)");
    return std::nullopt;
  }
  auto found = AskCoordinator();
  if (found) return IfFitting(*std::move(found), true);
  if (found.error().code == Code::kNotFound) {
    return tl::unexpected<Error>(std::move(found).error());
  }
  passed_over_.push_back(std::move(found).error().message);
  return std::nullopt;
}

Result<PlanSearch::Found> PlanSearch::AskCoordinator() const {
  using Connection = ServiceCaller<v1::CoordinatorService>;
  using Stub = Connection::Stub;
  UCUDNN_ASSIGN_OR_RETURN(
      auto list, ParseCoordinators(config_.coordinators, "UCUDNN_COORDINATOR"));
  UCUDNN_ASSIGN_OR_RETURN(
      const auto connection,
      Connection::Open(std::move(list), {.credentials = config_.credentials}));
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
  const auto ask = [&] {
    return connection->Call(&Stub::CreatePlan, request,
                            policy(config_.await_measurements));
  };
  const auto register_as = [&](std::string file) -> Status {
    v1::PutNetworkRequest put;
    put.set_name(config_.network.name);
    put.set_content(std::move(file));
    auto known =
        connection->Call(&Stub::PutNetwork, put, policy(Milliseconds(0)));
    if (known) return {};
    return Within(fmt::format("registering network {} with coordinator {}",
                              config_.network.name, connection->name()),
                  std::move(known).error());
  };
  const std::string& content = config_.network_content;
  if (config_.request.memory && !content.empty()) {
    // Others may have registered its convolutions alone. Equal contents make no
    // new revision. Where jobs may not register networks, people have.
    Status registered = register_as(content);
    if (!registered && registered.error().code != Code::kPermissionDenied) {
      return tl::unexpected<Error>(std::move(registered).error());
    }
  }
  auto plan = ask();
  if (!plan && plan.error().code == Code::kNotFound) {
    if (content.empty() && config_.network.layers.empty()) {
      return Fail(Code::kNotFound,
                  "coordinator {} does not know network '{}'; a network that "
                  "`ucudnn networks` lists is accepted, or its layers in "
                  "network_file",
                  connection->name(), config_.network.name);
    }
    UCUDNN_RETURN_IF_ERROR(
        register_as(content.empty() ? ToCsv(config_.network) : content));
    plan = ask();
  }
  if (!plan) {
    Error error = std::move(plan).error();
    if (error.message.find(connection->name()) != std::string::npos) {
      return tl::unexpected<Error>(std::move(error));
    }
    return Within(fmt::format("coordinator {}", connection->name()),
                  std::move(error));
  }
  Found found;
  found.source = PlanSource::kCoordinator;
  found.where =
      fmt::format("plan {} of coordinator {}", plan->id(), connection->name());
  auto decoded = FromProto(*plan);
  if (!decoded) return Within(found.where, std::move(decoded).error());
  found.plan = *std::move(decoded);
  return found;
}

Result<std::optional<PlanSearch::Found>> PlanSearch::FromCache() {
  if (config_.cache_dir.empty()) {
    passed_over_.emplace_back("there is no cache directory");
    return std::nullopt;
  }
  const std::string path = cache_path();
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) {
    passed_over_.push_back(
        fmt::format("no cached plan in {}", config_.cache_dir));
    return std::nullopt;
  }
  auto plan = ReadPlanFile(path);
  if (!plan) {
    passed_over_.push_back("cached plan: " + plan.error().message);
    return std::nullopt;
  }
  Found found;
  found.source = PlanSource::kCache;
  found.where = fmt::format("cached plan {} in {}", plan->id, path);
  found.plan = *std::move(plan);
  return IfFitting(std::move(found), true);
}

}  // namespace ucudnn
