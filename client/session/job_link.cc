#include "client/session/job_link.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/service/backoff.h"
#include "client/config/coordinators.h"
#include "client/session/step_log.h"
#include "proto/caller.h"
#include "proto/convert_plan.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn {
namespace {

using Connection = ServiceCaller<v1::CoordinatorService>;
using Stub = Connection::Stub;

// The most steps in one call; the log's capacity takes a few calls.
constexpr int kMaxStepsPerCall = 1024;
constexpr Milliseconds kShortestPause{10};
constexpr Milliseconds kLongestPause{60'000};

}  // namespace

class JobLink::Worker {
 public:
  Worker(Options options, std::unique_ptr<Connection> connection)
      : options_(std::move(options)),
        connection_(std::move(connection)),
        pause_(options_.report_after) {}

  void Start() {
    // Leave signals to the program's threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { Run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  StepLog& log() { return log_; }

  std::optional<Offer> TakeOffer() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return std::nullopt;  // try again next time
    return std::exchange(offer_, std::nullopt);
  }

  void Answer(const Offer& offer, std::string rejected) {
    {
      const std::lock_guard lock(mutex_);
      if (rejected.empty() && options_.registration) {
        options_.registration->set_revision(offer.revision);
        options_.registration->set_plan_id(offer.plan.id);
        *options_.registration->mutable_request() = ToProto(offer.plan.request);
      }
      v1::AnswerRevisionRequest answer;
      answer.set_job_id(options_.job_id);
      answer.set_revision(offer.revision);
      answer.set_rejected(std::move(rejected));
      answers_.push_back(std::move(answer));
      answered_ = true;
    }
    woken_.notify_one();
  }

  void Finish() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    woken_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  // Runs rounds until Finish, then a last one.
  void Run() {
    for (;;) {
      bool ending = false;
      {
        const std::lock_guard lock(mutex_);
        ending = ending_;
        answered_ = false;
      }
      end_ = std::chrono::steady_clock::now() +
             (ending ? options_.finish_within : options_.call_within);
      const bool delivered = Round(ending);
      if (ending) {
        // Once more to a coordinator that had forgotten the job.
        if (!delivered && !registered_) Round(ending);
        return;
      }
      // Jitter, so that the ranks of all jobs do not return to a coordinator at
      // once.
      const Milliseconds pause =
          delivered
              ? pause_
              : Backoff(pause_).Next() + PartOf(options_.reconnect_spread);
      // Only a new answer ends the pause early; an undelivered one waits for
      // the next round, like everything else.
      std::unique_lock lock(mutex_);
      woken_.wait_for(lock, pause, [&] { return ending_ || answered_; });
    }
  }

  // Makes as many calls as needed until end_. False if something could not be
  // delivered.
  bool Round(bool last) {
    last_ = last;
    if (!Register() || !SendAnswers() || !SendSteps()) return false;
    if (last && options_.registration) {
      v1::FinishJobRequest finish;
      finish.set_job_id(options_.job_id);
      static_cast<void>(connection_->Call(&Stub::FinishJob, finish, Policy()));
    }
    return true;
  }

  RetryPolicy Policy() const {
    const Milliseconds left =
        std::max(std::chrono::duration_cast<Milliseconds>(
                     end_ - std::chrono::steady_clock::now()),
                 Milliseconds(1));
    // The next round, if there is one, tries an unavailable coordinator again.
    if (!last_) return RetryPolicy::OneRound(left);
    return {.budget = left, .attempt_timeout = options_.call_within};
  }

  bool Register() {
    if (registered_ || !options_.registration) return true;
    v1::RegisterJobRequest registration;
    {
      const std::lock_guard lock(mutex_);
      registration = *options_.registration;
      offer_.reset();  // of the coordinator that knew the job
    }
    const auto response =
        connection_->Call(&Stub::RegisterJob, registration, Policy());
    if (!response) return false;
    registered_ = true;
    fetched_ = std::max<std::int64_t>(1, registration.revision());
    Pace(response->report_after_ms());
    return true;
  }

  bool SendAnswers() {
    for (;;) {
      v1::AnswerRevisionRequest answer;
      {
        const std::lock_guard lock(mutex_);
        if (answers_.empty()) return true;
        answer = answers_.front();
      }
      const auto sent =
          connection_->Call(&Stub::AnswerRevision, answer, Policy());
      // The coordinator would refuse such an answer again.
      if (!sent && sent.error().code != Code::kNotFound &&
          sent.error().code != Code::kInvalidArgument) {
        return false;
      }
      const std::lock_guard lock(mutex_);
      answers_.erase(answers_.begin());
    }
  }

  // Adds steps from the log to the request, which still holds unacknowledged
  // ones. Whether there may be more.
  bool Collect() {
    request_.set_job_id(options_.job_id);
    request_.set_rank(options_.rank);
    for (; collected_ < kMaxStepsPerCall; ++collected_) {
      const std::optional<TakenStep> step = log_.Take();
      if (!step) return false;
      v1::StepBatch* batch =
          request_.batches().empty()
              ? nullptr
              : request_.mutable_batches(request_.batches_size() - 1);
      const bool follows =
          batch != nullptr && batch->revision() == step->revision &&
          batch->first_step() + batch->step_ns_size() == step->index;
      if (!follows) {
        batch = request_.add_batches();
        batch->set_revision(step->revision);
        batch->set_first_step(step->index);
      }
      batch->add_step_ns(step->time.count());
    }
    return true;
  }

  bool SendSteps() {
    for (bool more = true; more;) {
      more = Collect();
      auto response = connection_->Call(&Stub::ReportSteps, request_, Policy());
      if (!response) {
        const Code code = response.error().code;
        // The coordinator has another database than before: register again,
        // with the revision that the ranks follow.
        if (code == Code::kNotFound) registered_ = false;
        // It would reject these steps again, but may take the ones after.
        if (code != Code::kInvalidArgument) return false;
        ForgetSteps();
        continue;
      }
      ForgetSteps();
      Pace(response->report_after_ms());
      Fetch(response->newest());
    }
    return true;
  }

  void ForgetSteps() {
    request_.clear_batches();
    collected_ = 0;
  }

  // Rank 0 fetches the plan of a new revision.
  void Fetch(const v1::JobRevision& newest) {
    if (!options_.registration || newest.revision() <= fetched_ ||
        newest.plan_id() == 0 || !newest.rejected().empty()) {
      return;
    }
    v1::GetRequest get;
    get.set_id(std::to_string(newest.plan_id()));
    const auto plan = connection_->Call(&Stub::GetPlan, get, Policy());
    if (!plan) return;
    auto decoded = FromProto(*plan);
    fetched_ = newest.revision();
    if (!decoded) {
      Answer({newest.revision(), {}}, decoded.error().message);
      return;
    }
    const std::lock_guard lock(mutex_);
    offer_ = Offer{newest.revision(), *std::move(decoded)};
  }

  void Pace(std::int64_t ms) {
    if (ms <= 0) return;
    pause_ = std::clamp(Milliseconds(ms), kShortestPause, kLongestPause);
  }

  Options options_;  // its registration under mutex_
  const std::unique_ptr<Connection> connection_;
  StepLog log_;

  // Used by the thread only.
  Milliseconds pause_;
  std::chrono::steady_clock::time_point end_;
  bool last_ = false;  // whether this is the last round
  bool registered_ = false;
  std::int64_t fetched_ = 1;
  v1::ReportStepsRequest request_;
  int collected_ = 0;

  std::mutex mutex_;
  std::condition_variable woken_;
  bool ending_ = false;
  std::optional<Offer> offer_;
  std::vector<v1::AnswerRevisionRequest> answers_;  // not delivered yet
  bool answered_ = false;  // there is a new answer since the last round began

  std::thread thread_;
};

JobLink::JobLink(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
JobLink::~JobLink() { Finish(); }

Result<std::unique_ptr<JobLink>> JobLink::Start(Options options) {
  UCUDNN_ASSIGN_OR_RETURN(
      auto list, ParseCoordinators(options.coordinators, "UCUDNN_COORDINATOR"));
  UCUDNN_ASSIGN_OR_RETURN(
      auto connection,
      Connection::Open(std::move(list),
                       {.credentials = options.credentials,
                        .job_key = options.job_key,
                        .reconnect_spread = options.reconnect_spread}));
  std::unique_ptr<JobLink> link(new JobLink(
      std::make_unique<Worker>(std::move(options), std::move(connection))));
  link->worker_->Start();
  return link;
}

void JobLink::Report(std::int64_t revision, Nanoseconds time) {
  worker_->log().Add(revision, time);
}

std::optional<JobLink::Offer> JobLink::TakeOffer() {
  return worker_->TakeOffer();
}

void JobLink::Answer(const Offer& offer, std::string rejected) {
  worker_->Answer(offer, std::move(rejected));
}

void JobLink::Finish() { worker_->Finish(); }

}  // namespace ucudnn
