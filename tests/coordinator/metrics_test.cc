// What /metrics tells of a coordinator that did something.

#include "coordinator/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <string>

#include "coordinator/coordinator.h"
#include "tests/support/fake_clock.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class MetricsTest : public ::testing::Test {
 protected:
  static CoordinatorOptions Options() {
    CoordinatorOptions options;
    options.version = "1.2.3";
    options.database = "sqlite";
    return options;
  }

  std::string Text() {
    return metrics_.Text(coordinator_.upkeep.GetStatus({}).value(),
                         std::chrono::milliseconds(1'500),
                         coordinator_.context.activity);
  }

  // A running job whose steps became longer.
  void Drift() {
    v1::RegisterJobRequest job;
    job.set_job_id("job");
    job.add_ranks();
    ASSERT_TRUE(coordinator_.jobs.RegisterJob(job));
    v1::ReportStepsRequest report;
    report.set_job_id("job");
    v1::StepBatch& batch = *report.add_batches();
    batch.set_revision(1);
    for (int step = 0; step < 48; ++step) {
      batch.add_step_ns(step < 16 ? 10'000'000 : 14'000'000);
    }
    ASSERT_TRUE(coordinator_.jobs.ReportSteps(report));
  }

  void Pass(seconds time) {
    for (seconds passed{0}; passed < time; passed += seconds(1)) {
      clock_.Advance(seconds(1));
      ASSERT_TRUE(coordinator_.upkeep.Maintain());
      coordinator_.jobs.AwaitWatch();
    }
  }

  Metrics metrics_;
  FakeClock clock_{1'000'000};
  const std::unique_ptr<Store> store_ =
      OpenStore("sqlite::memory:", [this](bool write, auto took) {
        metrics_.CountTransaction(write, took);
      }).value();
  Coordinator coordinator_{Options(), *store_, clock_};
};

TEST_F(MetricsTest, TellTheBuildAndTheProcess) {
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("ucudnn_build_info{version=\"1.2.3\","
                              "database=\"sqlite\",schema=\""));
  for (const char* name :
       {"process_cpu_seconds_total", "process_resident_memory_bytes",
        "process_open_fds", "process_max_fds", "process_threads",
        "process_start_time_seconds"}) {
    EXPECT_TRUE(std::regex_search(
        text, std::regex("\n" + std::string(name) + " [0-9]")))
        << name;
  }
  EXPECT_THAT(text, HasSubstr("\nucudnn_status_age_seconds 1.5\n"));
  EXPECT_THAT(text, EndsWith("# EOF\n"));
}

TEST_F(MetricsTest, TellHowLongTransactionsTake) {
  const std::string text = Text();
  for (const char* access : {"read", "write"}) {
    EXPECT_TRUE(std::regex_search(
        text,
        std::regex("ucudnn_database_transaction_seconds_count\\{access=\"" +
                   std::string(access) + "\"\\} [1-9]")))
        << access << text;
  }
}

TEST_F(MetricsTest, TellOfJobsTheirStepsAndDrift) {
  Drift();
  Pass(seconds(5));
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("\nucudnn_jobs{state=\"running\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nucudnn_jobs{state=\"lost\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\nucudnn_steps_reported_total 48\n"));
  EXPECT_THAT(text, HasSubstr("\nucudnn_jobs_drifting 1\n"));
  EXPECT_THAT(text, HasSubstr("\nucudnn_ranks_silent 0\n"));
  EXPECT_THAT(text, HasSubstr("\nucudnn_revisions_awaiting 0\n"));
  EXPECT_THAT(text, HasSubstr("\nucudnn_jobs_with_idle_devices 0\n"));
  // Nothing was predicted for it.
  EXPECT_THAT(text,
              HasSubstr("\nucudnn_step_over_predicted_ratio{of=\"median\"} "
                        "0\n"));
}

TEST_F(MetricsTest, CountWhoIsLost) {
  Drift();
  v1::RegisterRequest agent;
  agent.set_agent_id("agent");
  ASSERT_TRUE(coordinator_.agents.Register(agent));
  EXPECT_THAT(Text(), HasSubstr("\nucudnn_agents_lost_total 0\n"));
  Pass(seconds(45));
  EXPECT_THAT(Text(), HasSubstr("\nucudnn_agents_lost_total 1\n"));
  EXPECT_THAT(Text(), HasSubstr("\nucudnn_jobs_lost_total 1\n"));
  EXPECT_THAT(Text(), HasSubstr("\nucudnn_jobs{state=\"lost\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("\nucudnn_jobs_drifting 0\n"));
}

TEST(JobGaugesTest, TellTheMedianAndTheLargestRatio) {
  JobGauges gauges;
  AddRatios({1.5, 1.1, 1.2}, &gauges);
  EXPECT_EQ(gauges.median_over_predicted, 1.2);
  EXPECT_EQ(gauges.largest_over_predicted, 1.5);
}

}  // namespace
}  // namespace ucudnn
