// What `ucudnn` shows of jobs, and asks for them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/plan/prediction.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class JobsCliTest : public ::testing::Test {
 protected:
  JobsCliTest() {
    coordinator_.list_jobs =
        [](const v1::ListRequest& request) -> Result<v1::ListJobsResponse> {
      v1::ListJobsResponse page;
      if (!request.after().empty()) return page;
      v1::Job& job = *page.add_jobs();
      job.set_id("12345678-job");
      job.set_state("running");
      job.set_revision(1);
      job.set_proposed_revision(2);
      return page;
    };
  }

  test::Finished Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), test::ProgramPath("ucudnn"));
    arguments.insert(arguments.end(),
                     {"--coordinator", coordinator_.address()});
    return test::Run(arguments);
  }

  ScriptedCoordinator coordinator_;
};

TEST_F(JobsCliTest, ShowProposedRevisions) {
  const test::Finished listed =
      Run({"jobs", "--no-headers", "-o", "jsonpath={[*].proposed_revision}"});
  EXPECT_EQ(listed.out, "2\n") << listed.err;
  EXPECT_THAT(Run({"jobs"}).out, HasSubstr("PROPOSED"));
}

TEST_F(JobsCliTest, AreListedByState) {
  EXPECT_EQ(Run({"jobs", "--state", "running", "-o", "name"}).out,
            "12345678-job\n");
  EXPECT_EQ(Run({"jobs", "--state", "lost", "-o", "name"}).out, "");
  const test::Finished wrong = Run({"jobs", "--state", "ended"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("one of running,finished,lost is accepted"));
}

TEST_F(JobsCliTest, TellOfIdleDevices) {
  coordinator_.get_job = [](const v1::GetRequest& request) -> Result<v1::Job> {
    v1::Job job;
    job.set_id(request.id());
    v1::IdleDevices& idle = *job.add_idle_devices();
    idle.set_device_kind("NVIDIA H200/132u/139GiB/cudnn-9.19");
    idle.set_count(2);
    idle.set_predicted_now_ns(20'000'000);
    idle.set_predicted_ns(12'500'000);
    return job;
  };
  EXPECT_THAT(Run({"show", "job", "1234"}).out,
              HasSubstr("2 idle NVIDIA H200/132u/139GiB/cudnn-9.19 devices on "
                        "its nodes: started again with them, a step's "
                        "convolutions would take 12.5 ms instead of 20.0 ms"));
}

TEST_F(JobsCliTest, SayWhatAPredictionCovers) {
  coordinator_.get_job = [](const v1::GetRequest& request) -> Result<v1::Job> {
    v1::Job job;
    job.set_id(request.id());
    job.add_revisions()->set_predicted_ns(20'000'000);
    return job;
  };
  EXPECT_THAT(
      Run({"show", "job", "1234"}).out,
      AllOf(HasSubstr(kPredictedHeading), HasSubstr(kConvolutionsNote)));
  coordinator_.replan_job = [](const v1::ReplanJobRequest&) {
    v1::JobRevision revision;
    revision.set_predicted_ns(20'000'000);
    return Result<v1::JobRevision>(revision);
  };
  EXPECT_THAT(Run({"replan", "1234", "--accept"}).out,
              HasSubstr(", predicted (convolutions only) 20.0 ms;"));
  // Those of all tasks, and of memory plans.
  coordinator_.get_job = [](const v1::GetRequest&) -> Result<v1::Job> {
    v1::Job job;
    job.set_whole_steps(true);
    return job;
  };
  EXPECT_THAT(Run({"show", "job", "1234"}).out,
              Not(HasSubstr(kConvolutionsNote)));
  EXPECT_THAT(Run({"replan", "1234", "--accept"}).out,
              HasSubstr(", predicted 20.0 ms;"));
}

TEST_F(JobsCliTest, AcceptAProposedRevisionWithoutMeasuring) {
  coordinator_.replan_job =
      [](const v1::ReplanJobRequest& request) -> Result<v1::JobRevision> {
    EXPECT_TRUE(request.accept_proposed());
    EXPECT_EQ(request.job_id(), "12345678-job");
    v1::JobRevision revision;
    revision.set_revision(2);
    revision.set_plan_id(7);
    return revision;
  };
  const test::Finished accepted = Run({"replan", "1234", "--accept"});
  EXPECT_EQ(accepted.status, 0) << accepted.err;
  EXPECT_THAT(accepted.out, HasSubstr("revision 2 of job 12345678-job"));
  EXPECT_EQ(Run({"replan", "1234", "--accept", "--batch", "8"}).status, 2);
  coordinator_.replan_job = [](const v1::ReplanJobRequest&) {
    return Result<v1::JobRevision>(
        Fail(Code::kFailedPrecondition, "nothing is proposed"));
  };
  EXPECT_EQ(Run({"replan", "1234", "--accept"}).status, 1);
}

// Whoever may register a job may not write into the terminals of others.
TEST_F(JobsCliTest, ShowTextsOfOthersWithoutControlCharacters) {
  constexpr char kName[] = "\x1B[31mred\nline2";
  constexpr char kShown[] = R"(\x1b[31mred\nline2)";
  v1::Job job;
  job.set_id("12345678-job");
  job.set_name(kName);
  job.set_reason(kName);
  job.add_drift(kName);
  job.add_revisions()->set_reason(kName);
  job.add_ranks()->set_host(kName);
  coordinator_.list_jobs =
      [&](const v1::ListRequest& request) -> Result<v1::ListJobsResponse> {
    v1::ListJobsResponse page;
    if (request.after().empty()) *page.add_jobs() = job;
    return page;
  };
  coordinator_.get_job = [&](const v1::GetRequest&) {
    return Result<v1::Job>(job);
  };
  coordinator_.replan_job = [&](const v1::ReplanJobRequest&) {
    return Result<v1::JobRevision>(job.revisions(0));
  };
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"jobs"},
        {"jobs", "-o", "jsonpath={[*].name}"},
        {"show", "job", "1234"},
        {"replan", "1234", "--accept"}}) {
    const std::string out = Run(command).out;
    EXPECT_THAT(out, HasSubstr(kShown)) << command[0];
    EXPECT_THAT(out, AllOf(Not(HasSubstr("\x1B")), Not(HasSubstr("\nline2"))));
  }
  const auto json = nlohmann::json::parse(Run({"jobs", "-o", "json"}).out);
  EXPECT_EQ(json[0]["name"], kName);
  EXPECT_THAT(Run({"jobs", "-o", "yaml"}).out, Not(HasSubstr("\x1B")));
  coordinator_.get_job = [&](const v1::GetRequest&) {
    return Result<v1::Job>(Fail(Code::kNotFound, "no job {}", kName));
  };
  const std::string err = Run({"show", "job", "1234"}).err;
  EXPECT_THAT(err, HasSubstr(kShown));
  EXPECT_THAT(err, AllOf(Not(HasSubstr("\x1B")), Not(HasSubstr("\nline2"))));
}

TEST_F(JobsCliTest, AreCompletedByPlainNames) {
  coordinator_.list_jobs = [](const v1::ListRequest&) {
    v1::ListJobsResponse page;
    page.add_jobs()->set_id("12345678-job");
    page.add_jobs()->set_id("1234\x1B[2J\nforged");
    return Result<v1::ListJobsResponse>(page);
  };
  const test::Finished words =
      test::Run({test::ProgramPath("ucudnn"), "complete-words", "--coordinator",
                 coordinator_.address(), "show", "job", "1234"});
  EXPECT_EQ(words.out, "12345678-job\n") << words.err;
}

}  // namespace
}  // namespace ucudnn
