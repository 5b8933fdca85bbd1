#include "client/rehearse/rehearsal.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "client/cli/server/progress.h"
#include "client/cli/server/server.h"
#include "client/config/coordinators.h"
#include "client/config/variables.h"
#include "client/ranks/rank_device.h"
#include "client/rehearse/workload.h"
#include "client/session/config.h"
#include "proto/convert.h"

namespace ucudnn::rehearse {
namespace {

// Longer than any rank computes between two collective calls.
constexpr std::chrono::minutes kCollectiveTimeout{30};

Ranks::Deadline Soon() {
  return std::chrono::steady_clock::now() + kCollectiveTimeout;
}

// Together, for a rank's Result.
template <class T>
Status AllHave(Ranks& ranks, const Result<T>& mine) {
  if (mine) return Together(ranks, Status());
  return Together(ranks, tl::unexpected<Error>(mine.error()));
}

// One rank's rehearsal; all methods are collective.
class Rehearsal {
 public:
  Rehearsal(Ranks& ranks, Options options)
      : ranks_(ranks),
        options_(std::move(options)),
        terminal_(isatty(STDERR_FILENO) != 0) {}

  Result<Report> Run() {
    UCUDNN_RETURN_IF_ERROR(ReadNetwork());
    UCUDNN_RETURN_IF_ERROR(OpenDevice());
    Say("asking for a plan");
    UCUDNN_ASSIGN_OR_RETURN(
        session_, Session::Create(MPI_COMM_WORLD, options_.session, *device_));
    UCUDNN_RETURN_IF_ERROR(Prepare());
    UCUDNN_RETURN_IF_ERROR(InTurns());
    return Gather();
  }

 private:
  void Say(const std::string& line) {
    if (ranks_.rank() == 0) std::fprintf(stderr, "%s\n", line.c_str());
  }
  Workload::Progress Showing(const std::string& what) {
    if (ranks_.rank() != 0) return {};
    auto progress = std::make_shared<ctl::Progress>(what, terminal_);
    return [progress](std::int64_t done, std::int64_t total) {
      progress->Show(done, total, "");
      if (done == total) progress->End();
    };
  }

  // Rank 0 reads the file or asks the coordinator, and broadcasts the network.
  Status ReadNetwork() {
    std::string layers;
    Status found;
    if (ranks_.rank() == 0) {
      auto message = NetworkMessage();
      if (message) {
        layers = message->SerializeAsString();
      } else {
        found = tl::unexpected<Error>(std::move(message).error());
      }
    }
    UCUDNN_RETURN_IF_ERROR(Together(ranks_, found));
    UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&layers, Soon()));
    v1::Network message;
    UCUDNN_CHECK(message.ParseFromString(layers));
    options_.session.network.name = message.name();
    for (const v1::Layer& layer : message.layers()) {
      UCUDNN_ASSIGN_OR_RETURN(ConvLayer l, FromProto(layer));
      options_.session.network.layers.push_back(std::move(l));
    }
    return {};
  }

  Result<v1::Network> NetworkMessage() {
    std::string coordinators = options_.coordinator;
    if (coordinators.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(
          const auto named,
          ReadVariable(ProcessEnvironment(), kCoordinatorVariable));
      coordinators = named.value_or("");
    }
    using ctl::Connection;
    using ctl::Stub;
    std::unique_ptr<Connection> connection;
    if (!coordinators.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(auto list,
                              ParseCoordinators(coordinators, "--coordinator"));
      UCUDNN_ASSIGN_OR_RETURN(
          connection,
          Connection::Open(std::move(list), {.credentials = CredentialsFrom(
                                                 ProcessEnvironment())}));
    }
    const RetryPolicy policy{.budget = options_.session.ask_within};
    v1::Network message;
    message.set_name(options_.network);
    if (options_.network_file.empty()) {
      if (connection == nullptr) return message;
      auto known = connection->Call(&Stub::GetNetwork,
                                    ctl::ById(options_.network), policy);
      if (known) return known;
      if (known.error().code == Code::kNotFound) {
        return Fail(Code::kInvalidArgument,
                    "--network: coordinator {} does not know {}; give "
                    "--network-file to register it",
                    connection->name(), options_.network);
      }
      // The plan file or the cache may still have a plan.
      Say(known.error().message);
      return message;
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::string content,
                            OfInput(ReadFile(options_.network_file, 1_GiB)));
    UCUDNN_ASSIGN_OR_RETURN(
        const Network network,
        OfInput(ParseNetwork(content, options_.network, BatchSize(1),
                             options_.network_file)));
    for (const ConvLayer& layer : network.layers) {
      *message.add_layers() = ToProto(layer);
    }
    if (connection != nullptr) {
      v1::PutNetworkRequest put;
      put.set_name(options_.network);
      put.set_content(content);
      auto known = connection->Call(&Stub::PutNetwork, put, policy);
      if (!known && known.error().code == Code::kInvalidArgument) {
        return tl::unexpected<Error>(known.error());
      }
      if (!known) Say(known.error().message);
    }
    return message;
  }

  Status OpenDevice() {
    UCUDNN_ASSIGN_OR_RETURN(
        RankDevice mine,
        OpenRankDevice(ranks_,
                       {.cpu_devices = options_.cpu_devices,
                        .threads = options_.threads,
                        .all_algorithms = options_.compare_undivided},
                       Soon()));
    report_.host = std::move(mine.host);
    device_ = std::move(mine.device);
    return {};
  }

  Status Prepare() {
    watch_ = HostWatch();
    const RankPlan& plan = session_->rank_plan();
    Result<std::unique_ptr<Workload>> workload =
        Workload::Create(*device_, plan.workspace, options_.graph_memory);
    UCUDNN_RETURN_IF_ERROR(AllHave(ranks_, workload));
    workload_ = *std::move(workload);
    bool any = false;
    for (const RankPlan& rank : session_->plan().ranks) {
      any = any || !rank.workspace->kernels.empty();
    }
    if (any) return {};
    return Fail(Code::kUnavailable,
                "there is nothing to run: {}; --network-file would give the "
                "layers",
                session_->reason());
  }

  // Ranks that share a device run one after the other, the others at once.
  Status InTurns() {
    const std::vector<int>& sharing = session_->ranks_on_device();
    const auto mine = static_cast<std::size_t>(
        std::find(sharing.begin(), sharing.end(), ranks_.rank()) -
        sharing.begin());
    report_.in_turns = sharing.size() > 1;
    UCUDNN_ASSIGN_OR_RETURN(
        const std::vector<std::string> texts,
        ranks_.AllGather(std::to_string(sharing.size()), Soon()));
    std::size_t turns = 1;
    for (const std::string& text : texts) {
      turns = std::max<std::size_t>(turns, std::stoul(text));
    }
    if (turns > 1) Say("ranks share a device: they are measured in turns");
    for (std::size_t turn = 0; turn < turns; ++turn) {
      UCUDNN_RETURN_IF_ERROR(
          Together(ranks_, turn == mine ? Check() : Status()));
      UCUDNN_RETURN_IF_ERROR(
          Together(ranks_, turn == mine ? Measure() : Status()));
      if (!options_.compare_undivided) continue;
      UCUDNN_RETURN_IF_ERROR(
          Together(ranks_, turn == mine ? MeasureUndivided() : Status()));
    }
    return {};
  }

  bool Idle() const { return workload_->executor().size() == 0; }

  Status Check() {
    if (!options_.check || Idle()) return {};
    UCUDNN_ASSIGN_OR_RETURN(report_.errors,
                            workload_->Check(Showing("kernels checked")));
    return {};
  }

  Status Measure() {
    if (Idle()) return {};
    UCUDNN_ASSIGN_OR_RETURN(
        report_.measured,
        workload_->Measure(options_.iterations,
                           Showing("iterations of the plan")));
    // A GPU's times do not depend on its host's work.
    if (device_->info().id.starts_with("cpu-")) {
      report_.host_load = watch_.Load();
    }
    // An iteration is a step of nothing but convolutions.
    for (const Nanoseconds time : report_.measured->times) {
      session_->ReportStep(time);
    }
    const Executor::GraphUse use = workload_->executor().graphs();
    if (use.replayed > 0) {
      Say(fmt::format("replayed as a graph, which takes {} of device memory",
                      HumanBytes(use.memory)));
    } else if (!use.problem.empty()) {
      Say("enqueued, not replayed: " + use.problem);
    }
    return {};
  }

  Status MeasureUndivided() {
    if (Idle()) return {};
    auto timing = workload_->MeasureUndivided(options_.iterations,
                                              Showing("iterations undivided"));
    if (timing) {
      report_.undivided_measured = *timing;
    } else if (timing.error().code != Code::kFailedPrecondition) {
      return tl::unexpected<Error>(std::move(timing).error());
    }  // else nothing undivided fits into the limit
    return {};
  }

  Result<Report> Gather() {
    const RankPlan& plan = session_->rank_plan();
    report_.device_id = device_->info().id;
    report_.device_kind = ToString(device_->info().kind);
    report_.driver = device_->info().driver;
    report_.batch = plan.batch;
    report_.weight = plan.weight;
    const bool measured_before = plan.workspace->total_time > Nanoseconds(0);
    if (measured_before) report_.predicted = plan.workspace->total_time;
    if (measured_before) {
      report_.undivided_predicted = plan.workspace->undivided_time;
    }
    for (const auto& fallback : workload_->executor().fallbacks()) {
      const KernelPlan& kernel = workload_->executor().kernel(fallback.kernel);
      report_.fallbacks.push_back(
          fmt::format("{} {} ran undivided by {}: {}", kernel.layer,
                      Name(kernel.op), fallback.instead, fallback.why.message));
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                            ranks_.AllGather(Encode(report_), Soon()));
    Report report;
    report.network = options_.network;
    report.batch = options_.session.batch;
    report.plan_id = session_->plan().id;
    report.source = session_->source();
    report.reason = session_->reason();
    report.tolerance = options_.tolerance > 0
                           ? options_.tolerance
                           : Tolerance(options_.session.precision);
    for (const std::string& text : texts) {
      report.ranks.push_back(DecodeRankReport(text));
    }
    return report;
  }

  Ranks& ranks_;
  Options options_;
  bool terminal_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Workload> workload_;
  HostWatch watch_;
  RankReport report_;
};

}  // namespace

Status Together(Ranks& ranks, const Status& mine) {
  UCUDNN_ASSIGN_OR_RETURN(Status all, ranks.AllOf(mine, Soon()));
  return all;
}

Result<Report> Rehearse(Ranks& ranks, const Options& options) {
  return Rehearsal(ranks, options).Run();
}

}  // namespace ucudnn::rehearse
