#include "coordinator/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <sstream>

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class RequestLogTest : public ::testing::Test {
 protected:
  RequestLogTest() : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_));
    logger->set_pattern("%v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~RequestLogTest() override { spdlog::set_default_logger(before_); }

  static Status Failed(Code code) { return Fail(code, "no \"disk\"\nat all"); }

  std::string Lines() {
    spdlog::default_logger()->flush();
    return lines_.str();
  }

  const std::shared_ptr<spdlog::logger> before_;
  std::ostringstream lines_;
  RequestLog log_;
};

TEST_F(RequestLogTest, QuotesWhatCallersSay) {
  log_.Add("GetPlan", "10.0.0.7", Failed(Code::kInternal), milliseconds(12),
           false);
  EXPECT_EQ(Lines(),
            "event=request_failed method=GetPlan code=INTERNAL took_ms=12 "
            "from=\"10.0.0.7\" why=\"no \\\"disk\\\"\\nat all\" left_out=0\n");
}

TEST_F(RequestLogTest, TellsOfRefusedAndSlowCalls) {
  log_.Add("GetPlan", "a", Failed(Code::kPermissionDenied), milliseconds(1),
           false);
  EXPECT_THAT(Lines(), HasSubstr("event=request_refused"));
  log_.Add("GetPlan", "a", {}, milliseconds(1500), false);
  EXPECT_THAT(Lines(), HasSubstr("event=request_slow method=GetPlan code=OK"));
}

TEST_F(RequestLogTest, IsSilentAboutWhatIsUsual) {
  log_.Add("GetPlan", "a", {}, milliseconds(1), false);
  log_.Add("GetPlan", "a", Failed(Code::kNotFound), milliseconds(1), false);
  // Plans take long, and wait for measurements.
  log_.Add("CreatePlan", "a", {}, milliseconds(9000), true);
  log_.Add("CreatePlan", "a", Failed(Code::kAborted), milliseconds(1), true);
  EXPECT_EQ(Lines(), "");
}

TEST_F(RequestLogTest, LeavesOutLinesThatComeTooOften) {
  for (int call = 0; call < 100; ++call) {
    log_.Add("GetPlan", "a", Failed(Code::kInternal), milliseconds(1), false);
  }
  const std::string text = Lines();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  log_.Add("ListJobs", "a", Failed(Code::kInternal), milliseconds(1), false);
  EXPECT_THAT(Lines(), HasSubstr("method=ListJobs"));
}

}  // namespace
}  // namespace ucudnn
