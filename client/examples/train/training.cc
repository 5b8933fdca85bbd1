#include "client/examples/train/training.h"

#include <mpi.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/files/file.h"
#include "base/plan/even_shares.h"
#include "client/cli/server/progress.h"
#include "client/examples/train/checkpoint.h"
#include "client/examples/train/job.h"
#include "client/examples/train/loader.h"
#include "client/examples/train/parameters.h"
#include "client/examples/train/replica.h"
#include "client/gradients/all_reduce.h"
#include "client/gradients/gradient_sum.h"
#include "client/ranks/rank_device.h"
#include "client/session/config.h"
#include "device/operators/open.h"

namespace ucudnn::train {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than any rank computes between two collective calls.
constexpr std::chrono::minutes kCollectiveTimeout{30};

Ranks::Deadline Soon() { return Clock::now() + kCollectiveTimeout; }

// The amount of gradients to sum at once while the device computes the next:
// enough to be worth a collective call.
constexpr Bytes kBucket = 2_MiB;

// Waits until the device has reached `event`.
Status Await(Event& event) {
  const auto deadline = Soon();
  for (;;) {
    UCUDNN_ASSIGN_OR_RETURN(const bool reached, event.Reached());
    if (reached) return {};
    if (Clock::now() >= deadline) {
      return Fail(Code::kDeadlineExceeded, "the device did not end its work");
    }
    std::this_thread::yield();
  }
}

template <class T>
Status StatusOf(const Result<T>& result) {
  if (result) return {};
  return tl::unexpected<Error>(result.error());
}

// A rank's part of each mini-batch.
struct Part {
  BatchSize first;
  BatchSize batch;
  double weight = 0;
  const WorkspacePlan* plan = nullptr;
};

// One rank's training. Methods are collective unless they say otherwise.
class Training {
 public:
  Training(Ranks& ranks, TrainOptions options,
           std::function<bool()> interrupted)
      : ranks_(ranks),
        options_(std::move(options)),
        interrupted_(std::move(interrupted)),
        terminal_(isatty(STDERR_FILENO) != 0),
        even_(ranks) {}

  Result<Report> Run() {
    UCUDNN_RETURN_IF_ERROR(Prepare());
    UCUDNN_RETURN_IF_ERROR(Resume());
    UCUDNN_RETURN_IF_ERROR(TakeSteps());
    UCUDNN_RETURN_IF_ERROR(CompareParameters());
    UCUDNN_RETURN_IF_ERROR(TimeConvolutions());
    UCUDNN_RETURN_IF_ERROR(session_->Finalize());
    return Gather();
  }

 private:
  // OK if all ranks succeeded; else the first rank's error, on all.
  Status Together(const Status& mine) {
    UCUDNN_ASSIGN_OR_RETURN(Status all, ranks_.AllOf(mine, Soon()));
    return all;
  }
  void Say(const std::string& line) {
    if (ranks_.rank() == 0) std::fprintf(stderr, "%s\n", line.c_str());
  }
  bool idle() const { return part_.batch == BatchSize(0); }

  Status Prepare() {
    Result<Job> job = MakeJob(options_);
    UCUDNN_RETURN_IF_ERROR(Together(StatusOf(job)));
    job_ = *std::move(job);
    const int rank = ranks_.rank();
    const auto& threads = options_.threads;
    UCUDNN_ASSIGN_OR_RETURN(
        RankDevice mine,
        OpenRankDevice(
            ranks_,
            {.cpu_devices = options_.cpu_devices,
             .threads =
                 threads[static_cast<std::size_t>(rank) % threads.size()]},
            Soon()));
    report_.host = std::move(mine.host);
    device_ = std::move(mine.device);
    Result<std::unique_ptr<Operators>> operators = OpenOperators(*device_);
    UCUDNN_RETURN_IF_ERROR(Together(StatusOf(operators)));
    operators_ = *std::move(operators);
    UCUDNN_RETURN_IF_ERROR(FindTurn());
    Result<Order> order =
        Order::Create(job_.data->size(), options_.session.batch, options_.seed);
    UCUDNN_RETURN_IF_ERROR(Together(StatusOf(order)));
    loader_.emplace(*job_.data, *std::move(order), options_.readers);
    UCUDNN_RETURN_IF_ERROR(AskForPlan());
    auto parameters = Parameters::Create(*device_, job_.net, options_.seed);
    UCUDNN_RETURN_IF_ERROR(Together(StatusOf(parameters)));
    parameters_ = *std::move(parameters);
    for (auto* event : {&start_, &passed_, &updated_}) {
      UCUDNN_ASSIGN_OR_RETURN(*event, device_->MakeEvent());
    }
    for (const Parameters::Bucket& bucket : parameters_->Buckets(kBucket)) {
      UCUDNN_ASSIGN_OR_RETURN(auto made, device_->MakeEvent());
      buckets_.push_back({bucket, std::move(made)});
    }
    return MakeReplica();
  }

  // Ranks on one GPU, or on slices of it, would slow each other down, so they
  // compute one after the other.
  Status FindTurn() {
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                            ranks_.AllGather(device_->info().id, Soon()));
    for (std::size_t r = 0; r < ids.size(); ++r) {
      const auto sharing = static_cast<int>(
          std::count_if(ids.begin(), ids.end(), [&](const std::string& id) {
            return WholeDevice(id) == WholeDevice(ids[r]);
          }));
      turns_ = std::max(turns_, sharing);
      if (static_cast<int>(r) < ranks_.rank() &&
          WholeDevice(ids[r]) == WholeDevice(device_->info().id)) {
        ++turn_;
      }
    }
    if (turns_ > 1) Say("ranks share a GPU: they compute in turns");
    return {};
  }

  Status AskForPlan() {
    SessionOptions options = options_.session;
    options.network = ConvolutionsOf(job_.net);
    Say("asking for a plan");
    if (!options_.even) {
      UCUDNN_ASSIGN_OR_RETURN(
          session_, Session::Create(MPI_COMM_WORLD, options, *device_));
      UsePlan();
    } else {
      // Each rank is a job of its own, whose mini-batch is its even share.
      const auto rank = static_cast<std::size_t>(ranks_.rank());
      const std::vector<BatchSize> shares =
          EvenShares(options.batch, static_cast<std::size_t>(ranks_.size()));
      if (shares.back() == BatchSize(0)) {
        return Fail(Code::kInvalidArgument,
                    "--even: {} images on {} ranks; at least one for each is "
                    "accepted",
                    options.batch.count(), ranks_.size());
      }
      part_.first = std::accumulate(
          shares.begin(), shares.begin() + ranks_.rank(), BatchSize(0));
      part_.batch = shares[rank];
      part_.weight = static_cast<double>(part_.batch.count()) /
                     static_cast<double>(options.batch.count());
      options.batch = part_.batch;
      options.plan_file = "";
      auto session = Session::Create(MPI_COMM_SELF, options, *device_);
      UCUDNN_RETURN_IF_ERROR(Together(StatusOf(session)));
      session_ = *std::move(session);
      part_.plan = &*session_->rank_plan().workspace;
    }
    return {};
  }

  // Not collective.
  void UsePlan() {
    part_ = {session_->first_image(), session_->batch(), session_->weight(),
             &*session_->rank_plan().workspace};
  }

  // Frees the memory of the previous one first.
  Status MakeReplica() {
    replica_.reset();
    loaded_ = -1;
    return Together(idle() ? Status() : MakeMyReplica());
  }

  Status MakeMyReplica() {
    UCUDNN_RETURN_IF_ERROR(
        loader_->SetShare(*device_, part_.first, part_.batch));
    UCUDNN_ASSIGN_OR_RETURN(
        replica_, Replica::Create(*device_, *operators_, job_.net, *part_.plan,
                                  *parameters_));
    return {};
  }

  Status Resume() {
    if (!options_.resume) return {};
    std::string text;
    Status read;
    if (ranks_.rank() == 0) {
      auto file = OfInput(ReadFile(options_.checkpoint, 64_GiB));
      if (file) {
        text = *std::move(file);
      } else {
        read = tl::unexpected<Error>(std::move(file).error());
      }
    }
    UCUDNN_RETURN_IF_ERROR(Together(read));
    UCUDNN_RETURN_IF_ERROR(ranks_.Broadcast(&text, Soon()));
    UCUDNN_ASSIGN_OR_RETURN(
        const Checkpoint checkpoint,
        OfInput(DecodeCheckpoint(text, options_.checkpoint)));
    if (checkpoint.job != job_.hash ||
        std::ssize(checkpoint.state.filters) != parameters_->count()) {
      return Fail(Code::kInvalidArgument,
                  "{}: of another training; the network, the data, the batch, "
                  "the seed and the rates must be the same",
                  options_.checkpoint);
    }
    done_ = checkpoint.steps;
    Say(fmt::format("resuming after step {}", done_));
    return Together(parameters_->Restore(checkpoint.state));
  }

  Status SaveCheckpoint() {
    if (options_.checkpoint.empty() || saved_ == done_) return {};
    Status written;
    if (ranks_.rank() == 0) {
      auto state = parameters_->Save();
      written = StatusOf(state);
      if (state) {
        written = ReplaceFile(options_.checkpoint,
                              Encode({done_, job_.hash, *std::move(state)}));
      }
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
      UCUDNN_ASSIGN_OR_RETURN(const bool changed, session_->Refresh());
      // With an even split, each rank has a session of its own.
      if (changed && !options_.even) {
        UsePlan();
        UCUDNN_RETURN_IF_ERROR(MakeReplica());
      }
    }
    return SaveCheckpoint();
  }

  Status Step() {
    const auto start = Clock::now();
    Status begun;
    for (int turn = 0; turn < turns_; ++turn) {
      if (turn == turn_) begun = BeginPasses();
      if (turns_ == 1) break;
      if (turn == turn_ && begun && !idle()) begun = Await(*passed_);
      UCUDNN_RETURN_IF_ERROR(ranks_.Barrier(Soon()));
    }
    UCUDNN_RETURN_IF_ERROR(Exchange(std::move(begun)));
    Status updated = Update();
    std::array<double, 2> sums = {loss_, interrupted_() ? 1.0 : 0.0};
    UCUDNN_RETURN_IF_ERROR(ScaleAndSum(ranks_, std::span<double>(sums), 1.0,
                                       Soon(), std::move(updated)));
    result_.losses.push_back(
        sums[0] / static_cast<double>(options_.session.batch.count()));
    result_.interrupted = sums[1] > 0;
    result_.steps.push_back(Clock::now() - start);
    ++done_;
    return {};
  }

  // Enqueues both passes over this rank's images. Not collective.
  Status BeginPasses() {
    if (idle()) return {};
    if (loaded_ != done_) UCUDNN_RETURN_IF_ERROR(LoadImages(done_));
    UCUDNN_RETURN_IF_ERROR(start_->Set());
    auto next = buckets_.begin();
    UCUDNN_RETURN_IF_ERROR(
        replica_->Run([this, &next](std::size_t layer) -> Status {
          if (next == buckets_.end() || next->layer != layer) return {};
          return (next++)->made->Set();
        }));
    UCUDNN_RETURN_IF_ERROR(passed_->Set());
    return done_ + 1 < options_.steps ? LoadImages(done_ + 1) : Status();
  }

  // Not collective.
  Status LoadImages(std::int64_t step) {
    const Loader::Images images =
        loader_->Load(step, step + 1 == options_.steps);
    loaded_ = step;
    return replica_->Load(images.pixels, images.labels);
  }

  // Sums gradients while the device computes others. Called even if `mine` is
  // an error, so that the other ranks do not wait for this one.
  Status Exchange(Status mine) {
    for (const Bucket& bucket : buckets_) {
      if (mine && !idle()) mine = Await(*bucket.made);
      UCUDNN_ASSIGN_OR_RETURN(const std::int64_t failed,
                              ranks_.Max(mine ? 0 : 1, Soon()));
      if (failed > 0) return Together(mine);
      UCUDNN_RETURN_IF_ERROR(SumGradients(bucket.gradients));
    }
    return {};
  }

  // `gradients` are in device memory and complete.
  Status SumGradients(std::span<float> gradients) {
    if (!options_.even) return session_->AllReduceGradients(gradients);
    // With an even split, each rank has a session of its own.
    return even_.Sum(gradients, part_.weight, nullptr, Soon());
  }

  // Updates the filters with the summed gradients. Not collective.
  Status Update() {
    loss_ = 0;
    UCUDNN_RETURN_IF_ERROR(
        parameters_->Update(*operators_, static_cast<float>(options_.rate),
                            static_cast<float>(options_.momentum)));
    UCUDNN_RETURN_IF_ERROR(updated_->Set());
    UCUDNN_RETURN_IF_ERROR(Await(*updated_));
    Nanoseconds passes(0);
    Nanoseconds exchange(0);
    if (!idle()) {
      UCUDNN_ASSIGN_OR_RETURN(passes, passed_->Since(*start_));
      UCUDNN_ASSIGN_OR_RETURN(exchange, updated_->Since(*passed_));
      UCUDNN_ASSIGN_OR_RETURN(loss_, replica_->Loss());
    }
    report_.passes.push_back(passes);
    report_.exchanges.push_back(exchange);
    session_->ReportStep(passes);
    return {};
  }

  // Each rank has updated its own parameters; they must be bitwise equal.
  Status CompareParameters() {
    auto state = parameters_->Save();
    UCUDNN_RETURN_IF_ERROR(Together(StatusOf(state)));
    const uLong crc = crc32_z(
        0, reinterpret_cast<const unsigned char*>(state->filters.data()),
        state->filters.size() * sizeof(float));
    const auto mine = static_cast<std::int64_t>(crc);
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t most, ranks_.Max(mine, Soon()));
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t least,
                            ranks_.Max(-mine, Soon()));
    if (most == -least) return {};
    return Fail(Code::kDataLoss, "the ranks' parameters differ at the end");
  }

  Status TimeConvolutions() {
    for (int turn = 0; turn < turns_; ++turn) {
      UCUDNN_RETURN_IF_ERROR(
          Together(turn == turn_ ? TimeMyConvolutions() : Status()));
    }
    return {};
  }

  Status TimeMyConvolutions() {
    if (idle() || options_.measurements == 0) return {};
    std::vector<Nanoseconds> times;
    for (int i = 0; i < options_.measurements; ++i) {
      UCUDNN_ASSIGN_OR_RETURN(times.emplace_back(),
                              replica_->TimeConvolutions());
    }
    report_.convolutions = Typical(std::move(times));
    return {};
  }

  Result<Report> Gather() {
    report_.device_id = device_->info().id;
    report_.device_kind = ToString(device_->info().kind);
    report_.batch = part_.batch;
    report_.weight = part_.weight;
    if (!idle()) {
      const WorkspacePlan& plan = *part_.plan;
      if (plan.total_time > Nanoseconds(0)) report_.predicted = plan.total_time;
      for (const auto& fallback : replica_->executor().fallbacks()) {
        const KernelPlan& kernel = replica_->executor().kernel(fallback.kernel);
        report_.fallbacks.push_back(fmt::format(
            "{} {} ran undivided by {}: {}", kernel.layer, Name(kernel.op),
            fallback.instead, fallback.why.message));
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                            ranks_.AllGather(Encode(report_), Soon()));
    for (const std::string& text : texts) {
      result_.ranks.push_back(DecodeRankReport(text));
    }
    result_.net = job_.net.name;
    result_.batch = options_.session.batch;
    result_.even = options_.even;
    result_.plan_id = session_->plan().id;
    result_.source = Name(session_->source());
    result_.reason = session_->reason();
    result_.sum_method =
        options_.even ? even_.method() : session_->sum_method();
    result_.in_turns = turns_ > 1;
    return std::move(result_);
  }

  struct Bucket : Parameters::Bucket {
    std::unique_ptr<Event> made;
  };

  Ranks& ranks_;
  TrainOptions options_;
  std::function<bool()> interrupted_;
  bool terminal_;
  Job job_;
  std::unique_ptr<Device> device_;  // outlives the objects that it created
  std::unique_ptr<Operators> operators_;
  std::unique_ptr<Session> session_;
  AllReducer even_;  // sums for evenly split ranks
  Part part_;
  int turn_ = 0;
  int turns_ = 1;
  std::optional<Loader> loader_;
  std::unique_ptr<Parameters> parameters_;
  // Events in each step: start and end of the passes, and the end of the
  // update.
  std::unique_ptr<Event> start_;
  std::unique_ptr<Event> passed_;
  std::unique_ptr<Event> updated_;
  std::vector<Bucket> buckets_;
  std::unique_ptr<Replica> replica_;
  double loss_ = 0;
  std::int64_t done_ = 0;     // steps
  std::int64_t loaded_ = -1;  // the step whose images are on the device
  std::int64_t saved_ = -1;   // steps in the checkpoint
  RankReport report_;
  Report result_;
};

}  // namespace

Result<Report> Train(Ranks& ranks, const TrainOptions& options,
                     const std::function<bool()>& interrupted) {
  return Training(ranks, options, interrupted).Run();
}

}  // namespace ucudnn::train
