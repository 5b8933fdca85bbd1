#include "tests/integration/history/clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/units.h"
#include "proto/job_key.h"

namespace ucudnn::test {
namespace {

using Coordinators = v1::CoordinatorService::Stub;
using Agents = v1::AgentService::Stub;

constexpr std::int64_t kKiB = 1 << 10;
// A batch is planned for this often before the next one.
constexpr std::int64_t kTurnsPerBatch = 16;
constexpr std::int64_t kTurnsPerJob = 300;
constexpr int kPage = 1000;

// No key is the beginning of another, so each is a prefix for itself alone.
std::string PlanKey(std::int64_t id) { return fmt::format("plan/{}.", id); }
std::string TaskKey(const std::string& kind, const std::string& problem,
                    std::int64_t batch) {
  return fmt::format("task/{}/{}/{}.", kind, problem, batch);
}
std::string PointsOf(const std::string& kind) {
  return fmt::format("point/{}/", kind);
}
std::string PointKey(const std::string& kind, const std::string& problem,
                     const v1::Measurement& point) {
  return fmt::format("{}{}/{}/{}/{}.", PointsOf(kind), problem, point.batch(),
                     point.algorithm(), point.math());
}
std::string StepsKey(const std::string& job, std::int64_t revision, int rank) {
  return fmt::format("count/steps/{}/{}/{}.", job, revision, rank);
}
std::string AdoptedKey(const std::string& job) {
  return fmt::format("count/adopted/{}.", job);
}
std::string RevisionKey(const std::string& job, std::int64_t revision) {
  return fmt::format("revision/{}/{}.", job, revision);
}
std::string EndKey(const std::string& job) {
  return fmt::format("end/{}.", job);
}

std::pair<std::string, std::string> FactOf(const v1::Plan& plan) {
  return {
      PlanKey(plan.id()),
      fmt::format("{:x}", std::hash<std::string>()(plan.SerializeAsString()))};
}

std::string Text(std::int64_t number) { return std::to_string(number); }

}  // namespace

RetryPolicy Client::Policy() {
  return {.budget = Milliseconds(2'000),
          .attempt_timeout = Milliseconds(1'000),
          .longest_wait = Milliseconds(200)};
}

v1::PlanRequest Client::RequestFor(std::int64_t batch,
                                   const std::vector<std::string>& kinds) {
  v1::PlanRequest request;
  request.set_network(kHistoryNetwork);
  request.set_batch(batch);
  for (const std::string& kind : kinds) request.add_device_kinds(kind);
  request.set_workspace_limit_bytes(64 * kKiB);
  request.set_batch_policy("undivided");
  return request;
}

int Client::ReadJob(const std::string& id) {
  v1::GetRequest request;
  request.set_id(id);
  const std::int64_t from = History::Now();
  const auto job = Call(&Coordinators::GetJob, request);
  if (!job && job.error().code != Code::kNotFound) return 0;
  Facts revisions;
  Facts steps;
  Facts adopted;
  Facts end;
  if (job) {
    for (const v1::JobRevision& revision : job->revisions()) {
      revisions.emplace_back(RevisionKey(id, revision.revision()),
                             Text(revision.plan_id()));
    }
    for (const v1::JobRank& rank : job->ranks()) {
      for (const v1::StepTimes& times : rank.steps()) {
        steps.emplace_back(StepsKey(id, times.revision(), rank.rank()),
                           Text(times.count()));
      }
    }
    // The first plan is adopted by itself.
    if (job->revision() > 1) {
      adopted.emplace_back(AdoptedKey(id), Text(job->revision()));
    }
    if (job->state() == "finished") end.emplace_back(EndKey(id), "finished");
  }
  History& history = site_.history;
  history.Read(from, fmt::format("revision/{}/", id), std::move(revisions));
  history.Read(from, fmt::format("count/steps/{}/", id), std::move(steps));
  history.Read(from, AdoptedKey(id), std::move(adopted));
  history.Read(from, EndKey(id), std::move(end));
  return 1;
}

Measurer::Measurer(const Site& site, std::uint32_t seed, int number)
    : Client(site, seed),
      agents_(site.coordinators,
              site.access(Role::kAgent, fmt::format("measurer-{}", number), ""),
              {}, Waiting::Real()),
      id_(fmt::format("measurer-{}", number)),
      number_(number) {}

Status Measurer::Register() {
  v1::RegisterRequest request;
  request.set_agent_id(id_);
  v1::Device& device = *request.add_devices();
  device.set_id(fmt::format("made-up-{}", number_));
  device.set_kind(site_.made_up_kind);
  device.set_state("idle");
  v1::DeviceKind& kind = *device.mutable_kind_details();
  kind.set_model("MADE-UP");
  kind.set_units(1);
  kind.set_memory_bytes((1_GiB).count());
  kind.set_library("made-up-1.0");
  const auto answer = agents_.Call(&Agents::Register, request, Policy());
  registered_ = answer.has_value();
  return answer ? Status() : tl::unexpected<Error>(answer.error());
}

int Measurer::Turn() {
  if (!registered_ && !Register()) return 0;
  v1::LeaseTasksRequest request;
  request.set_agent_id(id_);
  request.set_device_id(fmt::format("made-up-{}", number_));
  request.set_max_tasks(4);
  const std::int64_t from = History::Now();
  const auto leased = agents_.Call(&Agents::LeaseTasks, request, Policy());
  if (!leased) {
    if (leased.error().code == Code::kNotFound) registered_ = false;
    return 0;
  }
  int answered = 1;
  for (const v1::Task& task : leased->tasks()) {
    // It is not done, or it would not have been given out.
    site_.history.Read(from, TaskKey(task.kind(), task.problem(), task.batch()),
                       {});
    answered += Report(task);
  }
  return answered;
}

int Measurer::Report(const v1::Task& task) {
  v1::ReportTaskRequest request;
  request.set_agent_id(id_);
  request.set_device_id(fmt::format("made-up-{}", number_));
  request.set_task_id(task.id());
  request.set_lease_token(task.lease_token());
  request.set_max_workspace_bytes(task.max_workspace_bytes());
  request.set_epoch(task.epoch());
  request.set_kind(task.kind());
  request.set_problem(task.problem());
  v1::Measurement& point = *request.add_measurements();
  point.set_batch(task.batch());
  point.set_algorithm("GEMM");
  point.set_math("FMA");
  point.set_precision("FP32");
  point.set_time_ns(1'000'000 + 10 * ++reports_ + number_);
  point.set_repeats(1);
  const std::pair<std::string, std::string> fact = {
      PointKey(task.kind(), task.problem(), point), Text(point.time_ns())};
  site_.history.Sent({fact});
  const std::int64_t from = History::Now();
  const auto answer = agents_.Call(&Agents::ReportTask, request, Policy());
  if (!answer) return 0;
  Facts facts = {{TaskKey(task.kind(), task.problem(), task.batch()),
                  fmt::format("{} done", task.id())}};
  // Otherwise another's report came first, or this one's first attempt.
  if (!answer->already()) facts.push_back(fact);
  site_.history.Acknowledged(from, std::move(facts));
  return 1;
}

int Planner::Turn() {
  const std::int64_t batch = 1 + turns_++ / kTurnsPerBatch;
  const std::string& kind = site_.kinds[static_cast<std::size_t>(
      Random(0, std::ssize(site_.kinds) - 1))];
  v1::PlanRequest request = RequestFor(batch, {kind});
  request.set_workspace_limit_bytes(Random(0, 64) * kKiB);
  const std::int64_t from = History::Now();
  const auto plan = Call(&Coordinators::CreatePlan, request);
  if (plan) {
    site_.history.Acknowledged(from, {FactOf(*plan)});
    plans_.push_back(plan->id());
    return 1 + Read();
  }
  v1::MeasureRequest measure;
  *measure.mutable_plan() = request;
  measure.set_wait_for_device(true);
  return (Call(&Coordinators::Measure, measure) ? 1 : 0) + Read();
}

int Planner::Read() {
  if (plans_.empty()) return 0;
  const std::int64_t id =
      plans_[static_cast<std::size_t>(Random(0, std::ssize(plans_) - 1))];
  v1::GetRequest request;
  request.set_id(Text(id));
  const std::int64_t from = History::Now();
  const auto plan = Call(&Coordinators::GetPlan, request);
  if (!plan && plan.error().code != Code::kNotFound) return 0;
  site_.history.Read(from, PlanKey(id), plan ? Facts{FactOf(*plan)} : Facts());
  return 1;
}

int JobRunner::Turn() {
  if (job_.empty()) return Register();
  ++turns_;
  if (turns_ > kTurnsPerJob) return Finish();
  if (newest_ > adopted_) return Adopt();
  switch (Random(0, 15)) {
    case 0:
      return Replan();
    case 1:
      return ReadJob(job_);
    default:
      return Report();
  }
}

int JobRunner::Register() {
  const std::string key = NewJobKey();
  job_calls_.emplace(site_.coordinators, site_.access(Role::kJob, "job", key),
                     std::stop_token(), Waiting::Real());
  v1::RegisterJobRequest request;
  request.set_job_id(JobIdOf(key));
  request.set_name("history");
  *request.mutable_request() =
      RequestFor(8, {site_.made_up_kind, site_.made_up_kind});
  for (int r = 0; r < 2; ++r) {
    v1::JobRank& rank = *request.add_ranks();
    rank.set_rank(r);
    rank.set_device_id(fmt::format("made-up-{}", r));
    rank.set_device_kind(site_.made_up_kind);
    rank.set_host("here");
  }
  const std::int64_t from = History::Now();
  if (!CallAsJob(&Coordinators::RegisterJob, request)) return 0;
  job_ = request.job_id();
  turns_ = 0;
  adopted_ = 1;
  newest_ = 1;
  counted_ = {0, 0};
  unanswered_ = {0, 0};
  site_.history.Acknowledged(from, {{RevisionKey(job_, 1), "0"}});
  return 1;
}

int JobRunner::Report() {
  const int rank = static_cast<int>(Random(0, 1));
  std::int64_t& counted = counted_[static_cast<std::size_t>(rank)];
  v1::ReportStepsRequest request;
  request.set_job_id(job_);
  request.set_rank(rank);
  v1::StepBatch& batch = *request.add_batches();
  batch.set_revision(adopted_);
  batch.set_first_step(counted);
  // What was not answered may be stored, so it is reported again, as jobs do.
  std::int64_t& unanswered = unanswered_[static_cast<std::size_t>(rank)];
  const auto steps = std::max<std::int64_t>(unanswered, Random(1, 20));
  unanswered = steps;
  for (std::int64_t i = 0; i < steps; ++i) batch.add_step_ns(1'000'000'000);
  const Facts fact = {{StepsKey(job_, adopted_, rank), Text(counted + steps)}};
  site_.history.Sent(fact);
  const std::int64_t from = History::Now();
  const auto answer = CallAsJob(&Coordinators::ReportSteps, request);
  if (!answer) return 0;
  counted += steps;
  unanswered = 0;
  newest_ = std::max(newest_, answer->newest().revision());
  Facts facts = fact;
  facts.emplace_back(fmt::format("count/newest/{}.", job_),
                     Text(answer->newest().revision()));
  site_.history.Acknowledged(from, std::move(facts));
  return 1;
}

int JobRunner::Replan() {
  v1::ReplanJobRequest request;
  request.set_job_id(job_);
  request.set_batch(2 * Random(1, 16));
  const std::int64_t from = History::Now();
  const auto revision = Call(&Coordinators::ReplanJob, request);
  if (!revision) {
    v1::MeasureRequest measure;
    *measure.mutable_replan() = request;
    measure.set_wait_for_device(true);
    return Call(&Coordinators::Measure, measure) ? 1 : 0;
  }
  site_.history.Acknowledged(from, {{RevisionKey(job_, revision->revision()),
                                     Text(revision->plan_id())}});
  return 1;
}

int JobRunner::Adopt() {
  v1::AnswerRevisionRequest request;
  request.set_job_id(job_);
  request.set_revision(newest_);
  const Facts fact = {{AdoptedKey(job_), Text(newest_)}};
  site_.history.Sent(fact);
  const std::int64_t from = History::Now();
  if (!CallAsJob(&Coordinators::AnswerRevision, request)) return 0;
  site_.history.Acknowledged(from, fact);
  adopted_ = newest_;
  counted_ = {0, 0};
  unanswered_ = {0, 0};
  return 1;
}

int JobRunner::Finish() {
  v1::FinishJobRequest request;
  request.set_job_id(job_);
  const std::int64_t from = History::Now();
  if (!CallAsJob(&Coordinators::FinishJob, request)) return 0;
  site_.history.Acknowledged(from, {{EndKey(job_), "finished"}});
  const int read = ReadJob(job_);
  if (read == 1) job_.clear();
  return 1 + read;
}

int Observer::Turn() {
  int answered = ReadTasks();
  for (const std::string& kind : site_.kinds) answered += ReadPoints(kind);
  answered += ReadJobs();
  v1::StatusRequest request;
  const std::int64_t from = History::Now();
  if (const auto status = Call(&Coordinators::GetStatus, request)) {
    site_.history.Read(from, "count/tasks_done.",
                       {{"count/tasks_done.", Text(status->tasks_done())}});
    ++answered;
  }
  return answered;
}

int Observer::ReadTasks() {
  v1::ListRequest request;
  request.set_limit(kPage);
  request.set_state("done");
  Facts facts;
  const std::int64_t from = History::Now();
  while (true) {
    const auto page = Call(&Coordinators::ListTasks, request);
    if (!page) return 0;
    if (page->tasks().empty()) break;
    for (const v1::QueuedTask& task : page->tasks()) {
      facts.emplace_back(TaskKey(task.kind(), task.problem(), task.batch()),
                         fmt::format("{} done", task.id()));
      request.set_after(Text(task.id()));
    }
  }
  site_.history.Read(from, "task/", std::move(facts));
  return 1;
}

int Observer::ReadJobs() {
  v1::ListRequest request;
  request.set_limit(kPage);
  int answered = 0;
  while (true) {
    const auto page = Call(&Coordinators::ListJobs, request);
    if (!page || page->jobs().empty()) return answered;
    for (const v1::Job& job : page->jobs()) {
      answered += ReadJob(job.id());
      request.set_after(job.id());
    }
  }
}

int Observer::ReadPoints(const std::string& kind) {
  v1::GetProfileRequest request;
  request.set_id(kind);
  Facts facts;
  const std::int64_t from = History::Now();
  while (true) {
    const auto page = Call(&Coordinators::GetProfile, request);
    if (!page && page.error().code == Code::kNotFound) break;
    if (!page) return 0;
    if (page->problems().empty()) break;
    for (const v1::ProblemProfile& problem : page->problems()) {
      for (const v1::Measurement& point : problem.measurements()) {
        facts.emplace_back(PointKey(kind, problem.problem(), point),
                           Text(point.time_ns()));
      }
      request.set_after(problem.problem());
    }
  }
  site_.history.Read(from, PointsOf(kind), std::move(facts));
  return 1;
}

}  // namespace ucudnn::test
