#include "client/session/agreement.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/plan/even_shares.h"
#include "base/service/host.h"
#include "client/executor/undivided.h"
#include "client/session/plan_check.h"
#include "proto/convert_plan.h"
#include "proto/job_key.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using Deadline = Ranks::Deadline;

// What each rank first tells the others.
struct Hello {
  std::string kind;
  std::string device_id;
  std::string host;
  std::vector<std::string> options;
  Status valid;
};

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A Status as JSON, for sending from rank to rank.
Json ToJson(const Status& status) {
  if (status) return nullptr;
  return {{"code", static_cast<int>(status.error().code)},
          {"message", status.error().message}};
}

Status FromJson(const Json& json) {
  if (json.is_null()) return {};
  return tl::unexpected<Error>(
      Error{static_cast<Code>(json.value("code", 2)),
            json.value("message", std::string("not told"))});
}

Json ToJson(const CredentialFiles& files) {
  return {{"ca", files.ca},
          {"cert", files.cert},
          {"key", files.key},
          {"token", files.token}};
}

CredentialFiles CredentialsFromJson(const Json& json) {
  return {.ca = json.at("ca"),
          .cert = json.at("cert"),
          .key = json.at("key"),
          .token = json.at("token")};
}

std::string Encode(const Hello& hello) {
  return Dump({{"kind", hello.kind},
               {"device_id", hello.device_id},
               {"host", hello.host},
               {"options", hello.options},
               {"error", ToJson(hello.valid)}});
}

// A different version's text may be anything.
Hello DecodeHello(const std::string& text) {
  Hello hello;
  try {
    const Json json = Json::parse(text);
    hello.kind = json.at("kind");
    hello.device_id = json.at("device_id");
    hello.host = json.at("host");
    hello.options = json.at("options").get<std::vector<std::string>>();
    hello.valid = FromJson(json.at("error"));
  } catch (const Json::exception& error) {
    hello.valid = Fail(Code::kInvalidArgument,
                       "runs a different version of ucudnn: {}", error.what());
  }
  return hello;
}

// The same result on every rank, because all have the same texts.
Status Agree(const std::vector<Hello>& hellos) {
  for (std::size_t r = 0; r < hellos.size(); ++r) {
    if (!hellos[r].valid) {
      return Within(fmt::format("rank {}", r), hellos[r].valid.error());
    }
  }
  for (std::size_t r = 1; r < hellos.size(); ++r) {
    if (hellos[r].options.size() != hellos[0].options.size()) {
      return Fail(Code::kInvalidArgument,
                  "ranks 0 and {} run different versions of ucudnn", r);
    }
    for (std::size_t i = 0; i < hellos[0].options.size(); ++i) {
      if (hellos[r].options[i] == hellos[0].options[i]) continue;
      if (hellos[r].options[i].starts_with(kKernelsOption)) {
        return Fail(Code::kInvalidArgument,
                    "rank {} has another network (network_file) than rank 0; "
                    "all ranks must have the same",
                    r);
      }
      return Fail(Code::kInvalidArgument,
                  "rank {} has {}, rank 0 has {}; all ranks must have the same",
                  r, hellos[r].options[i], hellos[0].options[i]);
    }
  }
  return {};
}

// This rank's part of the undivided plan.
Result<RankPlan> UndividedRank(Device& device, const JobRequest& request,
                               const std::vector<Kernel>& kernels, int rank,
                               int size) {
  RankPlan plan;
  plan.device_kind = ToString(device.info().kind);
  const std::vector<BatchSize> shares =
      EvenShares(request.batch, static_cast<std::size_t>(size));
  plan.batch = shares[static_cast<std::size_t>(rank)];
  plan.weight = static_cast<double>(plan.batch.count()) /
                static_cast<double>(request.batch.count());
  plan.reason = "an even share";
  if (request.memory) {
    plan.workspace.Own().batch = plan.batch;
    return plan;
  }
  UCUDNN_ASSIGN_OR_RETURN(
      WorkspacePlan workspace,
      UndividedPlan(device, kernels, plan.batch, request.KernelLimit(),
                    request.max_error));
  if (request.total_workspace > Bytes(0)) ShareArena(&workspace);
  plan.workspace = std::move(workspace);
  return plan;
}

// One rank's steps towards a session; all methods are collective.
class Steps {
 public:
  Steps(Ranks& ranks, const SessionOptions& options, Device& device)
      : ranks_(ranks), options_(options), device_(device) {}

  Result<Agreement> Run() {
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<Hello> hellos, ExchangeHellos());
    UCUDNN_RETURN_IF_ERROR(Choose());
    for (const Hello& hello : hellos) {
      agreement_.device_ids.push_back(hello.device_id);
      agreement_.hosts.push_back(hello.host);
    }
    return std::move(agreement_);
  }

 private:
  // Exchanges greetings and checks that all ranks want the same.
  Result<std::vector<Hello>> ExchangeHellos() {
    Hello mine;
    mine.host = HostName();
    mine.kind = ToString(device_.info().kind);
    mine.device_id = device_.info().id;
    mine.options = ExplicitOptions(options_);
    // Only rank 0's environment counts.
    const Environment none = [](const std::string&) { return std::nullopt; };
    auto resolved = ResolveConfig(
        options_, ranks_.rank() == 0 ? ProcessEnvironment() : none);
    if (resolved) {
      config() = *std::move(resolved);
    } else {
      mine.valid = tl::unexpected<Error>(std::move(resolved).error());
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto texts,
                            ranks_.AllGather(Encode(mine), Soon()));
    std::vector<Hello> hellos;
    hellos.reserve(texts.size());
    for (const std::string& text : texts) hellos.push_back(DecodeHello(text));
    UCUDNN_RETURN_IF_ERROR(Agree(hellos));
    if (options_.memory) {
      // All ranks have the same.
      UCUDNN_RETURN_IF_ERROR(Validate(*options_.memory, hellos.size()));
    }
    for (const Hello& hello : hellos) {
      config().request.device_kinds.push_back(hello.kind);
    }
    return hellos;
  }

  // Chooses the best plan that all ranks can run.
  Status Choose() {
    std::optional<PlanSearch> search;
    if (ranks_.rank() == 0) {
      search.emplace(config());
      agreement_.job_key = NewJobKey();
    }
    for (;;) {
      UCUDNN_RETURN_IF_ERROR(Offer(search));
      PlanSearch::Found& found = agreement_.found;
      if (found.source == PlanSource::kUndivided) {
        UCUDNN_ASSIGN_OR_RETURN(found.plan, Undivided());
        return {};
      }
      UCUDNN_ASSIGN_OR_RETURN(
          Result<JobPlan> shared,
          ShareIfRunnable(ranks_, found.plan, config().kernels, device_,
                          Soon()));
      if (shared) {
        found.plan = *std::move(shared);
        if (search) Keep(*search);
        return {};
      }
      if (search) search->Reject(shared.error().message);
    }
  }

  SessionConfig& config() { return agreement_.config; }
  Deadline Soon() const {
    return std::chrono::steady_clock::now() + options_.agree_within;
  }
  Deadline WhenSearched() const {
    return Soon() + options_.ask_within + options_.await_measurements;
  }

  // A cache that cannot be written fails no job.
  void Keep(PlanSearch& search) {
    PlanSearch::Found& found = agreement_.found;
    if (const Status kept = search.Accept(found); !kept) {
      found.plan.reasons.push_back(
          fmt::format("the plan is not cached: {}", kept.error().message));
    }
  }

  // Broadcasts the source of rank 0's next plan and why there is no better one,
  // and how to reach the coordinators; the plan itself stays on rank 0.
  Status Offer(std::optional<PlanSearch>& search) {
    std::string head;
    Status searched;
    if (search) {
      agreement_.found = {};
      auto next = search->Next();
      agreement_.reason = search->reason();
      if (!next) {
        searched = Within("rank 0", std::move(next).error());
      } else if (*next) {
        agreement_.found = **std::move(next);
        if (!agreement_.reason.empty()) agreement_.reason += "; ";
        agreement_.reason += agreement_.found.where;
      }
      head = Dump({{"error", ToJson(searched)},
                   {"source", static_cast<int>(agreement_.found.source)},
                   {"reason", agreement_.reason},
                   {"job_key", agreement_.job_key},
                   {"coordinators", config().coordinators},
                   {"credentials", ToJson(config().credentials)}});
    }
    UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&head, WhenSearched()));
    if (search) return searched;
    try {
      const Json json = Json::parse(head);
      searched = FromJson(json.at("error"));
      agreement_.found.source =
          static_cast<PlanSource>(json.at("source").get<int>());
      agreement_.reason = json.at("reason");
      agreement_.job_key = json.at("job_key");
      config().coordinators = json.at("coordinators");
      config().credentials = CredentialsFromJson(json.at("credentials"));
    } catch (const Json::exception& error) {
      return Fail(Code::kInternal, "rank 0's offer is not readable: {}",
                  error.what());
    }
    return searched;
  }

  std::string UndividedReason() {
    if (config().request.memory) {
      return "undivided: an even split without memory plans, which only a "
             "coordinator makes";
    }
    return config().kernels.empty()
               ? "undivided: an even split without kernels, because the "
                 "network's layers are not known"
               : "undivided: an even split, each kernel by the first algorithm "
                 "that fits";
  }

  // Each rank plans its own part, under rank 0's limits.
  Result<JobPlan> Undivided() {
    std::string request;
    if (ranks_.rank() == 0) {
      request = ToProto(config().request).SerializeAsString();
    }
    UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&request, Soon()));
    v1::PlanRequest message;
    if (!message.ParseFromString(request)) {
      return Fail(Code::kInternal, "rank 0's request is not readable");
    }
    UCUDNN_ASSIGN_OR_RETURN(config().request, FromProto(message));
    JobPlan mine;
    mine.request = config().request;
    auto rank = UndividedRank(device_, config().request, config().kernels,
                              ranks_.rank(), ranks_.size());
    Status status;
    if (rank) {
      mine.ranks.push_back(*std::move(rank));
    } else {
      status = tl::unexpected<Error>(std::move(rank).error());
    }
    UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks_.AllOf(status, Soon()));
    UCUDNN_RETURN_IF_ERROR(all);
    UCUDNN_ASSIGN_OR_RETURN(
        const auto texts,
        ranks_.AllGather(ToProto(mine).SerializeAsString(), Soon()));
    JobPlan plan;
    plan.request = config().request;
    plan.reasons = {UndividedReason()};
    for (const std::string& text : texts) {
      v1::Plan part;
      if (!part.ParseFromString(text) || part.ranks_size() != 1) {
        return Fail(Code::kInternal, "a rank's part is not readable");
      }
      UCUDNN_ASSIGN_OR_RETURN(JobPlan decoded, FromProto(part));
      plan.ranks.push_back(std::move(decoded.ranks[0]));
    }
    return plan;
  }

  Ranks& ranks_;
  const SessionOptions& options_;
  Device& device_;
  Agreement agreement_;
};

}  // namespace

Result<Agreement> AgreeOnPlan(Ranks& ranks, const SessionOptions& options,
                              Device& device) {
  return Steps(ranks, options, device).Run();
}

Result<Result<JobPlan>> ShareIfRunnable(Ranks& ranks, const JobPlan& plan,
                                        const std::vector<Kernel>& kernels,
                                        Device& device, Deadline deadline) {
  std::string body;
  if (ranks.rank() == 0) body = ToProto(plan).SerializeAsString();
  UCUDNN_RETURN_IF_ERROR(ranks.Broadcast(&body, deadline));
  const auto decoded = [&]() -> Result<JobPlan> {
    v1::Plan message;
    if (!message.ParseFromString(body)) {
      return Fail(Code::kInternal, "rank 0's plan is not readable");
    }
    return FromProto(message);
  };
  Result<JobPlan> mine = decoded();
  Status runnable;
  if (!mine) {
    runnable = tl::unexpected<Error>(mine.error());
  } else if (mine->ranks.size() != static_cast<std::size_t>(ranks.size())) {
    runnable = Fail(Code::kInternal, "the plan has {} ranks, the job has {}",
                    mine->ranks.size(), ranks.size());
  } else {
    const auto index = static_cast<std::size_t>(ranks.rank());
    runnable =
        mine->request.memory
            ? CheckMemoryPlan(*mine, index, kernels, device.info().kind.memory)
            : CheckOnDevice(device, mine->ranks[index].workspace);
  }
  UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks.AllOf(runnable, deadline));
  if (!all) return Result<JobPlan>(tl::unexpected<Error>(all.error()));
  return mine;
}

}  // namespace ucudnn
