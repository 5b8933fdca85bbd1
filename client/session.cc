#include "ucudnn/session.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "client/plan_check.h"
#include "client/plan_file.h"
#include "client/plan_search.h"
#include "client/ranks.h"
#include "client/session_config.h"
#include "client/undivided.h"
#include "device/device.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using Deadline = Ranks::Deadline;

// What each rank tells the others first.
struct Hello {
  std::string kind;
  std::string device_id;
  std::vector<std::string> options;
  Status valid;
};

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A Status that crosses from rank to rank.
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

std::string Encode(const Hello& hello) {
  return Dump({{"kind", hello.kind},
               {"device_id", hello.device_id},
               {"options", hello.options},
               {"error", ToJson(hello.valid)}});
}

Hello DecodeHello(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  Hello hello;
  if (json.is_discarded()) return hello;
  hello.kind = json["kind"];
  hello.device_id = json["device_id"];
  hello.options = json["options"].get<std::vector<std::string>>();
  hello.valid = FromJson(json["error"]);
  return hello;
}

// The same answer on every rank, for all have the same texts.
Status Agreed(const std::vector<Hello>& hellos) {
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
      return Fail(Code::kInvalidArgument,
                  "rank {} has {}, rank 0 has {}; all ranks must give the same",
                  r, hellos[r].options[i], hellos[0].options[i]);
    }
  }
  return {};
}

BatchSize EvenShare(BatchSize batch, int rank, int size) {
  const std::int64_t n = size;
  return BatchSize(batch.count() / n + (rank < batch.count() % n ? 1 : 0));
}

// This rank's part of the undivided plan.
Result<RankPlan> UndividedRank(Device& device, const JobRequest& request,
                               const std::vector<Kernel>& kernels, int rank,
                               int size) {
  RankPlan plan;
  plan.device_kind = ToString(device.info().kind);
  plan.batch = EvenShare(request.batch, rank, size);
  plan.weight = static_cast<double>(plan.batch.count()) /
                static_cast<double>(request.batch.count());
  plan.reason = "an even share";
  const bool total = request.total_workspace > Bytes(0);
  UCUDNN_ASSIGN_OR_RETURN(
      plan.workspace,
      UndividedPlan(device, kernels, plan.batch,
                    total ? request.total_workspace : request.workspace_limit));
  if (total) {
    // Under one limit for all, the kernels take turns in one segment.
    plan.workspace.total_workspace = Bytes(0);
    for (KernelPlan& kernel : plan.workspace.kernels) {
      kernel.offset = Bytes(0);
      plan.workspace.total_workspace =
          std::max(plan.workspace.total_workspace, kernel.workspace);
    }
  }
  return plan;
}

// One rank's steps towards a session; each method is collective.
class Agreement {
 public:
  Agreement(Ranks& ranks, const SessionOptions& options, Device& device)
      : ranks_(ranks), options_(options), device_(device) {}

  // Tells who is there; checks that all want the same.
  Result<std::vector<Hello>> Meet() {
    Hello mine;
    mine.kind = ToString(device_.info().kind);
    mine.device_id = device_.info().id;
    mine.options = ExplicitOptions(options_);
    // Only rank 0's environment counts.
    const Environment none = [](const std::string&) { return std::nullopt; };
    auto config = ResolveConfig(
        options_, ranks_.rank() == 0 ? ProcessEnvironment() : none);
    if (config) {
      config_ = *std::move(config);
    } else {
      mine.valid = tl::unexpected<Error>(std::move(config).error());
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto texts,
                            ranks_.AllGather(Encode(mine), Soon()));
    std::vector<Hello> hellos;
    hellos.reserve(texts.size());
    for (const std::string& text : texts) hellos.push_back(DecodeHello(text));
    UCUDNN_RETURN_IF_ERROR(Agreed(hellos));
    for (const Hello& hello : hellos) {
      config_.request.device_kinds.push_back(hello.kind);
    }
    return hellos;
  }

  // The best plan that all ranks can run.
  struct Outcome {
    FoundPlan found;
    std::string reason;
  };
  Result<Outcome> Choose() {
    std::optional<PlanSearch> search;
    if (ranks_.rank() == 0) search.emplace(config_);
    for (;;) {
      UCUDNN_ASSIGN_OR_RETURN(Outcome offer, Offer(search));
      if (offer.found.source == PlanSource::kUndivided) {
        UCUDNN_ASSIGN_OR_RETURN(offer.found.plan, Undivided());
        return offer;
      }
      const auto index = static_cast<std::size_t>(ranks_.rank());
      const Status mine =
          index < offer.found.plan.ranks.size()
              ? CheckOnDevice(device_, offer.found.plan.ranks[index].workspace)
              : Fail(Code::kInternal, "the plan has no rank {}", index);
      UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks_.AllOf(mine, Soon()));
      if (all) {
        if (search) search->Accept(offer.found);
        return offer;
      }
      if (search) search->Reject(all.error().message);
    }
  }

 private:
  Deadline Soon() const {
    return std::chrono::steady_clock::now() + options_.agree_within;
  }
  Deadline WhenSearched() const {
    return Soon() + options_.ask_within + options_.await_measurements;
  }

  // Rank 0's next plan, with why it is not a better one.
  Result<Outcome> Offer(std::optional<PlanSearch>& search) {
    Outcome offer;
    std::string head;
    std::string body;
    if (search) {
      std::optional<FoundPlan> found = search->Next();
      offer.reason = search->reason();
      if (found) {
        offer.found = *std::move(found);
        if (!offer.reason.empty()) offer.reason += "; ";
        offer.reason += offer.found.where;
        body = ToProto(offer.found.plan).SerializeAsString();
      }
      head = Dump({{"source", static_cast<int>(offer.found.source)},
                   {"reason", offer.reason}});
    }
    UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&head, WhenSearched()));
    UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&body, Soon()));
    if (search) return offer;
    const Json json = Json::parse(head, nullptr, false);
    UCUDNN_CHECK(!json.is_discarded());
    offer.found.source = static_cast<PlanSource>(json["source"].get<int>());
    offer.reason = json["reason"];
    if (body.empty()) return offer;
    v1::Plan message;
    if (message.ParseFromString(body)) {
      // Rank 0 has decoded the same message; if it differs here, the check on
      // this device tells the others.
      if (auto plan = FromProto(message)) offer.found.plan = *std::move(plan);
    }
    return offer;
  }

  // Each rank plans for itself, under rank 0's limits.
  Result<JobPlan> Undivided() {
    std::string request;
    if (ranks_.rank() == 0) {
      request = ToProto(config_.request).SerializeAsString();
    }
    UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&request, Soon()));
    v1::PlanRequest message;
    UCUDNN_CHECK(message.ParseFromString(request));
    UCUDNN_ASSIGN_OR_RETURN(config_.request, FromProto(message));
    JobPlan mine;
    mine.request = config_.request;
    auto rank = UndividedRank(device_, config_.request, config_.kernels,
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
    plan.request = config_.request;
    plan.reasons = {
        "undivided: an even split, each kernel by the first "
        "algorithm that fits"};
    for (const std::string& text : texts) {
      v1::Plan part;
      UCUDNN_CHECK(part.ParseFromString(text));
      UCUDNN_ASSIGN_OR_RETURN(JobPlan decoded, FromProto(part));
      plan.ranks.push_back(std::move(decoded.ranks.at(0)));
    }
    return plan;
  }

  Ranks& ranks_;
  const SessionOptions& options_;
  Device& device_;
  SessionConfig config_;
};

}  // namespace

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
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::Create(MPI_Comm comm,
                                                 const SessionOptions& options,
                                                 Device& device) {
  std::unique_ptr<Session> session(new Session);
  UCUDNN_ASSIGN_OR_RETURN(
      session->ranks_, Ranks::Duplicate(comm, std::chrono::steady_clock::now() +
                                                  options.agree_within));
  Agreement agreement(*session->ranks_, options, device);
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Hello> hellos, agreement.Meet());
  UCUDNN_ASSIGN_OR_RETURN(auto outcome, agreement.Choose());
  session->index_ = static_cast<std::size_t>(session->ranks_->rank());
  session->plan_ = std::move(outcome.found.plan);
  session->source_ = outcome.found.source;
  session->reason_ = std::move(outcome.reason);
  for (std::size_t r = 0; r < hellos.size(); ++r) {
    if (hellos[r].device_id == device.info().id) {
      session->ranks_on_device_.push_back(static_cast<int>(r));
    }
  }
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

}  // namespace ucudnn
