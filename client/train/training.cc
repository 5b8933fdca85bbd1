#include "client/train/training.h"

#include <mpi.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/onnx/onnx.h"
#include "base/plan/even_shares.h"
#include "base/service/cgroup.h"
#include "base/service/host.h"
#include "base/text.h"
#include "base/training/json.h"
#include "client/cli/command.h"
#include "client/cli/progress.h"
#include "client/config/environment.h"
#include "client/gradients/gradient_sum.h"
#include "client/ranks/rank_device.h"
#include "client/session/config.h"
#include "client/train/adopted_plan.h"
#include "client/train/checkpoint.h"
#include "client/train/drawn_steps.h"
#include "client/train/evaluation.h"
#include "client/train/exchange.h"
#include "client/train/job.h"
#include "client/train/loader.h"
#include "client/train/shares.h"
#include "client/train/step_prediction.h"
#include "client/training/memory_executor.h"
#include "client/training/memory_run.h"
#include "device/operators/open.h"

namespace ucudnn::train {
namespace {

using Clock = std::chrono::steady_clock;

// The first steps under a plan, which load code, are not timed; nor are those
// that try streams.
constexpr std::int64_t kWarmUp = 2;

// One rank's training. Methods are collective unless they say otherwise.
class Training {
 public:
  Training(Ranks& ranks, const TrainOptions& options,
           const std::stop_token& stop)
      : ranks_(ranks),
        options_(options),
        stop_(stop),
        terminal_(isatty(STDERR_FILENO) != 0) {}

  Result<Report> Run() {
    UCUDNN_RETURN_IF_ERROR(Prepare());
    UCUDNN_RETURN_IF_ERROR(Resume());
    UCUDNN_RETURN_IF_ERROR(Plan());
    UCUDNN_RETURN_IF_ERROR(Apply());
    UCUDNN_RETURN_IF_ERROR(TakeSteps());
    UCUDNN_RETURN_IF_ERROR(CompareParameters());
    UCUDNN_RETURN_IF_ERROR(Evaluate());
    if (session_ != nullptr) UCUDNN_RETURN_IF_ERROR(session_->Finalize());
    return Gather();
  }

 private:
  // OK if all ranks succeeded; else the first rank's error, on all.
  Status Together(const Status& mine) {
    UCUDNN_ASSIGN_OR_RETURN(Status all, ranks_.AllOf(mine, Soon()));
    return all;
  }
  template <class T>
  Result<T> Together(Result<T> mine) {
    UCUDNN_RETURN_IF_ERROR(Together(StatusOf(mine)));
    return mine;
  }
  void Say(const std::string& line) {
    if (ranks_.rank() == 0) std::fprintf(stderr, "%s\n", line.c_str());
  }
  bool idle() const { return part_.batch == BatchSize(0); }
  bool exchanges_statistics() const {
    return !options_.statistics_of_ranks &&
           job_.network->NormalisesOverImages();
  }

  static std::filesystem::path FileOf(const std::string& path) {
    std::error_code error;
    auto file = std::filesystem::weakly_canonical(path, error);
    return error ? std::filesystem::path(path) : file;
  }

  // Long before rank 0 writes them: whether it may.
  Status CheckFiles() {
    Status status;
    std::map<std::filesystem::path, std::string_view> taken = {
        {FileOf(options_.network), "--network"},
        {FileOf(options_.device_model), "--device-model"}};
    for (const auto& [option, file] :
         {std::pair("--checkpoint", &options_.checkpoint),
          std::pair("--measurements", &options_.measurements),
          std::pair("--graph-out", &options_.graph_out)}) {
      if (ranks_.rank() != 0 || !status || file->empty() || *file == "-") {
        continue;
      }
      const auto [other, is_free] = taken.emplace(FileOf(*file), option);
      status = is_free ? PrepareToReplace(*file)
                       : Fail(Code::kInvalidArgument,
                              "'{}' is the file of {}; another is accepted",
                              Excerpt(*file), other->second);
      if (!status) status = Within(option, std::move(status).error());
    }
    return Together(status);
  }

  Status Prepare() {
    UCUDNN_RETURN_IF_ERROR(CheckFiles());
    UCUDNN_ASSIGN_OR_RETURN(job_, Together(MakeJob(options_, ranks_.size())));
    const auto& threads = options_.threads;
    UCUDNN_ASSIGN_OR_RETURN(
        RankDevice mine,
        OpenRankDevice(
            ranks_,
            {.device = options_.device,
             .cpu_devices = options_.cpu_devices,
             .threads = threads[static_cast<std::size_t>(ranks_.rank()) %
                                threads.size()]},
            Soon()));
    host_ = std::move(mine.host);
    device_ = std::move(mine.device);
    UCUDNN_ASSIGN_OR_RETURN(operators_, Together(OpenOperators(*device_)));
    UCUDNN_ASSIGN_OR_RETURN(turns_, Turns::Find(ranks_, *device_, Soon()));
    UCUDNN_RETURN_IF_ERROR(MakeExchange());
    UCUDNN_ASSIGN_OR_RETURN(
        Order order, Together(Order::Create(job_.data->size(), options_.batch,
                                            options_.seed)));
    loader_.emplace(*job_.data, std::move(order), options_.readers);
    return {};
  }

  // Ranks that share a GPU compute one after the other, unless they must meet
  // within a pass.
  Status MakeExchange() {
    if (ranks_.size() == 1) return {};
    const Turns turns = exchanges_statistics() ? Turns() : turns_;
    in_turns_ = turns.all > 1;
    if (in_turns_) Say("ranks share a GPU: they compute in turns");
    const bool on_gpu = !device_->info().id.starts_with("cpu-");
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t any_on_gpu,
                            ranks_.Max(on_gpu ? 1 : 0, Soon()));
    exchange_.emplace(ranks_, *device_, turns, any_on_gpu == 0);
    if (any_on_gpu != 0 && !in_turns_) {
      UCUDNN_RETURN_IF_ERROR(exchange_->Prepare());
    }
    const Result<ExchangeCosts> costs =
        exchange_->Measure(exchanges_statistics());
    if (!costs) static_cast<void>(exchange_->Refuse(costs.error()));
    UCUDNN_RETURN_IF_ERROR(Together(StatusOf(costs)));
    costs_ = *costs;
    return {};
  }

  // What the device has for training. Not collective.
  Bytes DeviceMemory() const {
    const Bytes memory = device_->info().kind.memory;
    const auto left = ReadCgroupLimits().memory;
    return left && device_->info().id.starts_with("cpu-")
               ? std::min(memory, *left)
               : memory;
  }

  // Of each rank. Without one, or with 0, it is what the device has.
  Result<std::vector<Bytes>> Budgets() {
    const auto ranks = static_cast<std::size_t>(ranks_.size());
    const std::vector<Bytes>& given = options_.budgets;
    if (given.size() > 1 && given.size() != ranks) {
      return Fail(Code::kInvalidArgument,
                  "--memory-budget: {} sizes for {} ranks; one, or one for "
                  "each, is accepted",
                  given.size(), ranks);
    }
    std::vector<Bytes> budgets(ranks, given.empty() ? Bytes() : given[0]);
    if (given.size() > 1) budgets = given;
    std::vector<std::int64_t> each(ranks);
    each[static_cast<std::size_t>(ranks_.rank())] = DeviceMemory().count();
    UCUDNN_ASSIGN_OR_RETURN(each, ranks_.MaxOfEach(std::move(each), Soon()));
    for (std::size_t r = 0; r < ranks; ++r) {
      if (budgets[r] == Bytes()) budgets[r] = Bytes(each[r]);
    }
    return budgets;
  }

  // Empty if they are to be planned.
  Result<std::vector<BatchSize>> GivenShares() const {
    const auto ranks = static_cast<std::size_t>(ranks_.size());
    if (options_.even && options_.batch.count() < ranks_.size()) {
      return Fail(Code::kInvalidArgument,
                  "--even: {} images on {} ranks; at least one for each is "
                  "accepted",
                  options_.batch.count(), ranks);
    }
    const std::vector<BatchSize> shares(options_.shares.begin(),
                                        options_.shares.end());
    const auto sum =
        std::accumulate(shares.begin(), shares.end(), BatchSize(0));
    if (!shares.empty() && (shares.size() != ranks || sum != options_.batch)) {
      return Fail(Code::kInvalidArgument,
                  "--shares: {} shares of {} images; one for each of {} ranks, "
                  "of {} images together, is accepted",
                  shares.size(), sum.count(), ranks, options_.batch.count());
    }
    if (options_.even || ranks == 1) return EvenShares(options_.batch, ranks);
    return shares;
  }

  std::string Policy() const {
    if (!options_.policy.empty()) return options_.policy;
    return options_.budgets.empty() ? "undivided" : "best";
  }

  // A coordinator's plan if there is one, else one of measurements made here.
  Status Plan() {
    UCUDNN_RETURN_IF_ERROR(OpenSession());
    std::string why_not;
    if (session_ != nullptr) {
      UCUDNN_ASSIGN_OR_RETURN(const Status adopted, Adopt());
      if (adopted) return {};
      why_not =
          fmt::format("; {}: {}", session_->reason(), adopted.error().message);
    }
    UCUDNN_RETURN_IF_ERROR(PlanHere());
    result_.reason += why_not;
    return {};
  }

  // If a coordinator or a plan file is named, on rank 0, whose environment
  // counts.
  Status OpenSession() {
    // Coordinators plan the network as it is.
    if (options_.even || !options_.shares.empty() || options_.split) return {};
    SessionOptions options = options_.session;
    options.batch = options_.batch;
    options.precision = options_.precision;
    JobMemory& memory = options.memory.emplace();
    if (!options_.budgets.empty()) memory.budgets = options_.budgets;
    memory.policy = Policy() == "undivided" ? "baseline" : Policy();
    memory.recompute = options_.plan.recompute;
    memory.offload_weights = options_.plan.offload_weights;
    memory.momentum = options_.momentum > 0;
    UCUDNN_ASSIGN_OR_RETURN(
        options.network,
        Together(ParseNetwork(job_.input.contents, job_.input.name,
                              options_.batch, job_.input.source)));
    UCUDNN_ASSIGN_OR_RETURN(
        options.network_content,
        Together(IsNetworkCsv(job_.input.contents)
                     ? job_.input.contents
                     : WithoutWeights(job_.input.contents, job_.input.source)));
    UCUDNN_ASSIGN_OR_RETURN(
        const auto config,
        Together(ResolveConfig(options, ProcessEnvironment())));
    const bool asks = ranks_.rank() == 0 && (!config.coordinators.empty() ||
                                             !config.plan_file.empty());
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t any,
                            ranks_.Max(asks ? 1 : 0, Soon()));
    if (any == 0) return {};
    Say("asking for a plan");
    UCUDNN_ASSIGN_OR_RETURN(session_,
                            Session::Create(MPI_COMM_WORLD, options, *device_));
    return {};
  }

  // What the session's plan makes of this rank.
  struct Adopted {
    Part part;
    TrainingGraph graph;  // if it trains
  };

  // Takes the session's plan if all ranks can. Then, as executors refer to what
  // it replaces, there are none any more.
  Result<Status> Adopt() {
    Result<Adopted> mine = AdoptMine();
    UCUDNN_ASSIGN_OR_RETURN(const Status all,
                            ranks_.AllOf(StatusOf(mine), Soon()));
    if (!all) return all;
    executor_.reset();
    idle_.reset();
    part_ = std::move(mine->part);
    if (!idle()) job_.network->training = std::move(mine->graph);
    result_.source = Name(session_->source());
    result_.reason = session_->reason();
    result_.plan_id = session_->plan().id;
    return Status();
  }

  // Not collective.
  Result<Adopted> AdoptMine() {
    if (session_->plan().request.batch != options_.batch) {
      return Fail(Code::kFailedPrecondition,
                  "the plan is for a mini-batch of {}; this job keeps {}",
                  session_->plan().request.batch.count(),
                  options_.batch.count());
    }
    Adopted mine;
    Part& part = mine.part;
    part = {session_->first_image(),
            session_->batch(),
            {},
            session_->rank_plan().reason};
    if (part.batch > BatchSize(0)) {
      if (session_->memory_plan() == nullptr) {
        return Fail(Code::kFailedPrecondition, "there is no memory plan");
      }
      UCUDNN_ASSIGN_OR_RETURN(part.plan,
                              AdoptPlan(*session_->memory_plan(), *device_,
                                        *job_.network, &mine.graph));
      if (exchanges_statistics() && part.plan->rounds.size() > 1) {
        return Fail(Code::kFailedPrecondition,
                    "the plan has sub-batches, over which {} normalises",
                    Excerpt(job_.network->training.network));
      }
    }
    return mine;
  }

  // Between two steps: what a revision of the plan changes.
  Status Refresh() {
    if (session_ == nullptr) return {};
    const auto adopt = [this]() -> Result<Status> {
      UCUDNN_RETURN_IF_ERROR(ShareParameters());
      UCUDNN_ASSIGN_OR_RETURN(Status adopted, Adopt());
      if (!adopted) {
        Say(fmt::format("the job keeps its plan: {}", adopted.error().message));
      }
      return adopted;
    };
    UCUDNN_ASSIGN_OR_RETURN(const bool changed, session_->Refresh(adopt));
    return changed ? Apply() : Status();
  }

  Status PlanHere() {
    ShareRequest request;
    request.input = job_.input;
    request.input.exchanged_statistics =
        ranks_.size() > 1 && exchanges_statistics();
    request.plan = options_.plan;
    if (!device_->can_fork()) request.plan.streams = 1;
    request.plan.allow_sub_batch_statistics = options_.statistics_of_ranks;
    request.plan.policy = Policy();
    UCUDNN_ASSIGN_OR_RETURN(request.budgets, Budgets());
    UCUDNN_ASSIGN_OR_RETURN(request.shares, GivenShares());
    request.measurements = options_.measurements;
    request.for_all_policies = !options_.graph_out.empty();
    Say("measuring and planning");
    SharePlanner planner(ranks_, *device_, *operators_, turns_, request,
                         job_.network.get());
    UCUDNN_ASSIGN_OR_RETURN(part_, planner.Plan(stop_));
    result_.source = "measured here";
    result_.reason = planner.reason();
    if (options_.graph_out.empty()) return {};
    Status written;
    if (ranks_.rank() == 0) {
      const TrainingGraph& graph = job_.network->training;
      written = ctl::WriteText(
          options_.graph_out,
          ToJson(graph, MeasuredBatchesOf(graph)).dump(1) + "\n");
    }
    return Together(written);
  }

  // Makes what trains by the part's plan. Its memory is free.
  Status Apply() {
    run_ = {};
    watch_ = {};
    taken_ = 0;
    result_.steps.clear();
    shares_.assign(static_cast<std::size_t>(ranks_.size()), 0);
    shares_[static_cast<std::size_t>(ranks_.rank())] = part_.batch.count();
    UCUDNN_ASSIGN_OR_RETURN(shares_,
                            ranks_.MaxOfEach(std::move(shares_), Soon()));
    UCUDNN_RETURN_IF_ERROR(Together(ApplyMine()));
    return Predict();
  }

  // What the plans of all ranks make of a step.
  Status Predict() {
    const bool statistics = exchange_ && exchanges_statistics();
    const TrainingGraph& graph = job_.network->training;
    std::vector<GradientBucket> buckets;
    if (exchange_) buckets = GradientBuckets(graph);
    std::string mine;
    if (!idle()) {
      mine = Encode(PassesOf(*part_.plan, graph, job_.network->operations,
                             buckets, statistics));
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                            ranks_.AllGather(mine, Soon()));
    std::vector<RankPasses> ranks;
    std::size_t index = 0;
    for (const std::string& text : texts) {
      if (&text == &texts[static_cast<std::size_t>(ranks_.rank())]) {
        index = ranks.size();
      }
      if (!text.empty()) ranks.push_back(DecodeRankPasses(text));
    }
    const StepPrediction step = PredictStep(ranks, buckets, costs_);
    result_.predicted = step.step;
    // The host makes sums then that NCCL's costs say nothing of.
    const bool unlike =
        exchange_ && exchange_->stream_ordered() &&
        std::ranges::any_of(ranks, &RankPasses::gradients_on_host);
    if (in_turns_ || unlike) result_.predicted.reset();
    if (!idle() && exchange_) predicted_passes_ = step.passes[index];
    return {};
  }

  Status ApplyMine() {
    PreparedTraining& network = *job_.network;
    if (idle()) {
      UCUDNN_ASSIGN_OR_RETURN(
          IdleRank idle,
          IdleRank::Create(*device_, network.training, network.operations,
                           exchanges_statistics()));
      idle_.emplace(std::move(idle));
      return {};
    }
    ExecutionOptions execution;
    execution.rate = static_cast<float>(options_.rate);
    execution.momentum = static_cast<float>(options_.momentum);
    execution.first_step = static_cast<std::uint32_t>(done_);
    execution.mini_batch = options_.batch;
    execution.first_image = part_.first;
    execution.exchange = exchange_ ? &*exchange_ : nullptr;
    execution.exchange_statistics = !options_.statistics_of_ranks;
    execution.allow_sub_batch_statistics = options_.statistics_of_ranks;
    execution.poison = options_.poison;
    execution.time_tasks = options_.time_tasks;
    execution.streams = options_.plan.streams;
    if (drawn_.draws()) execution.graph_memory = Bytes();
    auto executor = MemoryExecutor::Create(*device_, *operators_, network.graph,
                                           network.training, *part_.plan,
                                           network.parameters, execution);
    // The algorithms are those of the file.
    if (!executor && executor.error().code == Code::kNotFound &&
        !options_.measurements.empty()) {
      return Within(Excerpt(options_.measurements),
                    std::move(executor).error());
    }
    UCUDNN_ASSIGN_OR_RETURN(executor_, std::move(executor));
    std::array<TrainingBatch, 2> batches;
    for (TrainingBatch& batch : batches) {
      UCUDNN_ASSIGN_OR_RETURN(batch, executor_->MakeBatch());
      run_.images += batch.memory.size();
    }
    run_.host = executor_->host_arena();
    loader_->SetShare(std::move(batches), part_.first, part_.batch);
    drawn_.Reset();
    return {};
  }

  Status Resume() {
    if (!options_.resume) return {};
    UCUDNN_ASSIGN_OR_RETURN(
        Checkpoint checkpoint,
        Together(ranks_.rank() == 0 ? ReadCheckpoint()
                                    : Checkpoint{.values = Values()}));
    std::vector<float>& values = checkpoint.values;
    UCUDNN_RETURN_IF_ERROR(Share(0, &values));
    SetValues(job_.network->training, values, &job_.network->parameters);
    UCUDNN_ASSIGN_OR_RETURN(done_, ranks_.Max(checkpoint.steps, Soon()));
    Say(fmt::format(
        "resuming after step {}{}", done_,
        done_ < options_.steps
            ? ""
            : fmt::format("; --steps {} asks for no more", options_.steps)));
    return {};
  }

  // Not collective.
  Result<Checkpoint> ReadCheckpoint() const {
    UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                            OfInput(ReadFile(options_.checkpoint, 64_GiB)));
    UCUDNN_ASSIGN_OR_RETURN(
        Checkpoint checkpoint,
        OfInput(DecodeCheckpoint(text, options_.checkpoint)));
    if (checkpoint.job != job_.hash ||
        checkpoint.values.size() != Values().size()) {
      return Fail(Code::kInvalidArgument,
                  "{}: of another training; the network, the precision, the "
                  "data, the batch, the seed, the rate, the momentum, the "
                  "batch statistics and the split must be the same",
                  options_.checkpoint);
    }
    return checkpoint;
  }

  // What this rank started with. Not collective.
  std::vector<float> Values() const {
    return ValuesOf(job_.network->training, job_.network->parameters);
  }

  // Gives all ranks the values of one of them; there are as many on each.
  Status Share(int from, std::vector<float>* values) {
    UCUDNN_RETURN_IF_ERROR(ScaleAndSum(ranks_, std::span<float>(*values),
                                       ranks_.rank() == from ? 1.0 : 0.0,
                                       Soon()));
    return {};
  }

  // Reads the parameters of now on ranks that train. Not collective.
  Status Download() {
    if (executor_ == nullptr) return {};
    UCUDNN_ASSIGN_OR_RETURN(job_.network->parameters, executor_->Download());
    return {};
  }

  // The same, and gives them to all ranks if one of them does not train.
  Status ShareParameters() {
    UCUDNN_RETURN_IF_ERROR(Together(Download()));
    const auto trains = [](std::int64_t batch) { return batch > 0; };
    if (std::ranges::all_of(shares_, trains)) return {};
    std::vector<float> values = Values();
    UCUDNN_RETURN_IF_ERROR(
        Share(static_cast<int>(std::ranges::find_if(shares_, trains) -
                               shares_.begin()),
              &values));
    SetValues(job_.network->training, values, &job_.network->parameters);
    return {};
  }

  Status SaveCheckpoint() {
    if (options_.checkpoint.empty() || saved_ == done_) return {};
    UCUDNN_RETURN_IF_ERROR(ShareParameters());
    Status written;
    if (ranks_.rank() == 0) {
      written = ReplaceFile(options_.checkpoint,
                            Encode({done_, job_.hash, Values()}));
    }
    UCUDNN_RETURN_IF_ERROR(Together(written));
    saved_ = done_;
    return {};
  }

  Status TakeSteps() {
    result_.first_step = done_;
    saved_ = options_.resume ? done_ : -1;
    ctl::Progress progress("steps", terminal_);
    while (done_ < options_.steps && !result_.interrupted) {
      UCUDNN_RETURN_IF_ERROR(Step());
      if (ranks_.rank() == 0) {
        progress.Show(done_, options_.steps,
                      fmt::format("loss {:.4f}", result_.losses.back()));
      }
      if (done_ % options_.checkpoint_every == 0) {
        UCUDNN_RETURN_IF_ERROR(SaveCheckpoint());
      }
      UCUDNN_RETURN_IF_ERROR(Refresh());
    }
    return SaveCheckpoint();
  }

  Status Step() {
    const auto start = Clock::now();
    if (exchange_) UCUDNN_RETURN_IF_ERROR(exchange_->Begin());
    StepReport step;
    Status trained = idle() ? idle_->Step(*exchange_) : StepMine(&step);
    if (!trained && exchange_) trained = exchange_->Refuse(trained.error());
    std::array<double, 2> sums = {step.loss,
                                  stop_.stop_requested() ? 1.0 : 0.0};
    UCUDNN_RETURN_IF_ERROR(ScaleAndSum(ranks_, std::span<double>(sums), 1.0,
                                       Soon(), std::move(trained)));
    result_.losses.push_back(sums[0]);
    result_.interrupted = sums[1] > 0;
    const Nanoseconds wall = Clock::now() - start;
    const bool counts =
        taken_ >= std::min(warm_up(), options_.steps - 1 - (done_ - taken_));
    if (counts) result_.steps.push_back(wall);
    if (!idle()) run_.Add(step, wall, counts);
    if (session_ != nullptr) session_->ReportStep(step.passes);
    ++taken_;
    ++done_;
    return {};
  }

  // Not collective by itself, but for what the executor exchanges.
  Status StepMine(StepReport* step) {
    UCUDNN_ASSIGN_OR_RETURN(const DrawnStep* const now, drawn_.At(done_));
    UCUDNN_ASSIGN_OR_RETURN(const DrawnStep* const next, drawn_.At(done_ + 1));
    const bool is_last = done_ + 1 == options_.steps;
    const TrainingBatch& batch =
        loader_->Load(done_, now->parts, is_last ? nullptr : &next->parts);
    if (drawn_.draws()) {
      UCUDNN_RETURN_IF_ERROR(
          executor_->Redraw(now->network->training, now->network->operations));
    }
    UCUDNN_ASSIGN_OR_RETURN(*step, executor_->Step(batch));
    return {};
  }

  // On all ranks the same, whether or not they find something to try.
  std::int64_t warm_up() const {
    return options_.plan.streams == 1 ? kWarmUp : kWarmUp + 2 * kStreamTrials;
  }

  // Each rank has updated its own parameters; they must be bitwise equal.
  Status CompareParameters() {
    UCUDNN_RETURN_IF_ERROR(Together(Download()));
    std::vector<std::int64_t> most(2, std::numeric_limits<std::int64_t>::min());
    if (!idle()) {
      const std::vector<float> values = Values();
      const auto crc = static_cast<std::int64_t>(
          crc32_z(0, reinterpret_cast<const unsigned char*>(values.data()),
                  values.size() * sizeof(float)));
      most = {crc, -crc};
    }
    UCUDNN_ASSIGN_OR_RETURN(most, ranks_.MaxOfEach(std::move(most), Soon()));
    if (most[0] == -most[1]) return {};
    return Fail(Code::kDataLoss, "the ranks' parameters differ at the end");
  }

  Status Evaluate() {
    if (job_.held_out == nullptr || result_.interrupted) return {};
    Say("evaluating");
    Result<Evaluation> mine = Evaluation();
    if (!idle()) {
      Keep(*executor_);
      executor_.reset();
      mine = EvaluateShare(*device_, *operators_, job_, options_, part_, stop_);
    }
    const Evaluation sum = mine.value_or(Evaluation());
    std::array<double, 3> sums = {sum.loss, static_cast<double>(sum.labels),
                                  static_cast<double>(sum.correct)};
    // What was trained is reported in any case.
    result_.evaluated = StatusOf(ScaleAndSum(ranks_, std::span<double>(sums),
                                             1.0, Soon(), StatusOf(mine)));
    if (!result_.evaluated) return {};
    result_.evaluation = {sums[0], std::llround(sums[1]),
                          std::llround(sums[2])};
    return {};
  }

  // What is reported of it. Not collective.
  void Keep(const MemoryExecutor& executor) {
    run_.captured = executor.captured();
    run_.streams = executor.streams();
  }

  Result<Report> Gather() {
    RankReport mine;
    mine.shown = {{"host", host_},
                  {"device_id", device_->info().id},
                  {"device_kind", ToString(device_->info().kind)},
                  {"batch", part_.batch.count()},
                  {"weight", static_cast<double>(part_.batch.count()) /
                                 static_cast<double>(options_.batch.count())},
                  {"why", part_.why}};
    // A GPU's times do not depend on its host's work.
    if (device_->info().id.starts_with("cpu-")) {
      const HostLoad load = watch_.Load();
      mine.shown["host_load"] = {
          {"load", load.load}, {"own", load.own}, {"cores", load.cores}};
    }
    if (!idle()) {
      if (executor_ != nullptr) Keep(*executor_);
      mine.shown.update(ToJson(*job_.network, *part_.plan, run_));
      if (predicted_passes_) {
        mine.shown["predicted_passes_us"] =
            Microseconds(*predicted_passes_ - run_.streams.gain());
      }
      mine.passes = std::move(run_.passes);
      mine.times = std::move(run_.times);
    }
    // No rank's step ends sooner than that of the one that gains the least.
    UCUDNN_ASSIGN_OR_RETURN(
        const std::int64_t lost,
        ranks_.Max(idle() ? std::numeric_limits<std::int64_t>::min()
                          : -run_.streams.gain().count(),
                   Soon()));
    if (result_.predicted) *result_.predicted += Nanoseconds(lost);
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                            ranks_.AllGather(Encode(mine), Soon()));
    for (const std::string& text : texts) {
      result_.ranks.push_back(DecodeRankReport(text));
    }
    result_.network = job_.network->training.network;
    result_.precision = options_.precision;
    result_.batch = options_.batch;
    result_.split = options_.even             ? "even"
                    : options_.shares.empty() ? "planned"
                                              : "given";
    result_.statistics_of_parts =
        options_.statistics_of_ranks && job_.network->NormalisesOverImages();
    if (exchange_) result_.sum_method = exchange_->method();
    result_.in_turns = in_turns_;
    result_.share_device = turns_.all > 1;
    return std::move(result_);
  }

  Ranks& ranks_;
  const TrainOptions& options_;
  const std::stop_token& stop_;
  const bool terminal_;
  Job job_;
  std::string host_;
  std::unique_ptr<Device> device_;  // outlives the objects that it created
  std::unique_ptr<Operators> operators_;
  std::unique_ptr<Session> session_;  // if a coordinator or a file has plans
  Turns turns_;
  bool in_turns_ = false;
  std::optional<JobExchange> exchange_;  // with other ranks, if there are any
  std::optional<Loader> loader_;
  Part part_;
  std::vector<std::int64_t> shares_;          // the batches of all ranks
  std::unique_ptr<MemoryExecutor> executor_;  // of ranks that train
  std::optional<IdleRank> idle_;              // of others
  ExchangeCosts costs_;                       // with other ranks
  // This rank's, among others.
  std::optional<Nanoseconds> predicted_passes_;
  DrawnSteps drawn_{job_, options_};
  MemoryRun run_;
  HostWatch watch_;          // since the plan was applied
  std::int64_t done_ = 0;    // steps
  std::int64_t taken_ = 0;   // of them, under this plan
  std::int64_t saved_ = -1;  // steps in the checkpoint
  Report result_;
};

}  // namespace

Result<Report> Train(Ranks& ranks, const TrainOptions& options,
                     const std::stop_token& stop) {
  return Training(ranks, options, stop).Run();
}

}  // namespace ucudnn::train
