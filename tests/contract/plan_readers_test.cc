// All readers of a plan agree on it: tests/data/plans/changes.json holds a
// plan, and changes that make other plans to accept or refuse.
// tests/python/test_plans.py does the same for Python.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/plan/plan_json.h"
#include "client/dropin/planner/plan_file_kernels.h"
#include "proto/convert_plan.h"
#include "proto/json.h"
#include "tests/support/paths.h"
#include "ucudnn/solve.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr const char* kKind = "Fake/1u/1GiB/none-1.0";

template <class T>
Status StatusOf(const Result<T>& result) {
  if (result) return {};
  return tl::unexpected<Error>(result.error());
}

// A job's plan with one rank, which has the workspace plan.
Json JobOf(const Json& workspace) {
  Json batch = workspace["batch"];
  if (!batch.is_number_integer() || batch.get<std::int64_t>() < 1) batch = 1;
  return {{"request",
           {{"network", "n"}, {"batch", batch}, {"device_kinds", {kKind}}}},
          {"ranks",
           {{{"rank", 0},
             {"device_kind", kKind},
             {"batch", batch},
             {"weight", 1.0},
             {"workspace", workspace}}}}};
}

template <class Message>
Status ThroughProto(const Json& json) {
  Message message;
  UCUDNN_RETURN_IF_ERROR(FromJson(json, &message));
  return StatusOf(FromProto(message));
}

// Readers that want kernels refuse a plan without any.
Json WithKernels(Json workspace, const Json& kernels) {
  if (workspace["kernels"].empty()) {
    workspace["batch"] = 4;
    workspace["kernels"] = kernels;
  }
  return workspace;
}

Status ByTheSolversLibrary(const Json& plan) {
  const std::string text = plan.dump();
  char* answer = nullptr;
  const int code = ucudnn_solve_read_plan(text.data(), text.size(), &answer);
  const std::string message = answer == nullptr ? "" : answer;
  ucudnn_solve_free(answer);
  if (code == 0) return {};
  return tl::unexpected<Error>(Error{static_cast<Code>(code), message});
}

struct Reader {
  std::string name;
  std::function<Status(const Json& workspace)> read;
};

class PlanReadersTest : public ::testing::Test {
 protected:
  PlanReadersTest() {
    std::ifstream file(test::DataPath("plans/changes.json"));
    data_ = Json::parse(file);
  }

  Json Changed(const Json& changes) const {
    Json plan = data_["plan"];
    for (const auto& [path, value] : changes.items()) {
      plan[Json::json_pointer(path)] = value;
    }
    return plan;
  }

  Json data_;
  const std::vector<Reader> readers_ = {
      {"workspace plan as JSON",
       [](const Json& plan) { return StatusOf(WorkspacePlanFromJson(plan)); }},
      {"job's plan as JSON",
       [](const Json& plan) { return StatusOf(JobPlanFromJson(JobOf(plan))); }},
      {"workspace plan on the wire", ThroughProto<v1::WorkspacePlan>},
      {"job's plan on the wire",
       [](const Json& plan) { return ThroughProto<v1::Plan>(JobOf(plan)); }},
      {"kernels of a workspace plan",
       [this](const Json& plan) {
         const Json some = WithKernels(plan, data_["plan"]["kernels"]);
         return StatusOf(ParseKernelPlans(some.dump(), kKind, "p"));
       }},
      {"kernels of a job's plan",
       [this](const Json& plan) {
         const Json some = WithKernels(plan, data_["plan"]["kernels"]);
         return StatusOf(ParseKernelPlans(JobOf(some).dump(), kKind, "p"));
       }},
      {"libucudnn_solve", ByTheSolversLibrary},
  };
};

TEST_F(PlanReadersTest, AllAcceptPlansThatMayRun) {
  for (const Json& changes : data_["good"]) {
    for (const Reader& reader : readers_) {
      const Status read = reader.read(Changed(changes));
      EXPECT_TRUE(read) << reader.name << " of " << changes << ": "
                        << read.error().message;
    }
  }
}

TEST_F(PlanReadersTest, AllRefuseTheOthersAndNameTheField) {
  for (const Json& bad : data_["bad"]) {
    for (const Reader& reader : readers_) {
      const Status read = reader.read(Changed(bad["change"]));
      ASSERT_FALSE(read) << reader.name << " of " << bad;
      EXPECT_EQ(read.error().code, Code::kInvalidArgument)
          << reader.name << " of " << bad;
      EXPECT_THAT(read.error().message, HasSubstr(std::string(bad["field"])))
          << reader.name << " of " << bad;
    }
  }
}

TEST_F(PlanReadersTest, JsonAndTheWireMeanTheSame) {
  for (const Json& changes : data_["good"]) {
    const Json json = JobOf(Changed(changes));
    v1::Plan message;
    ASSERT_TRUE(FromJson(json, &message));
    const auto wired = FromProto(message);
    ASSERT_TRUE(wired);
    EXPECT_EQ(JobPlanFromJson(json), wired) << json;
    EXPECT_EQ(JobPlanFromJson(ToJson(ToProto(*wired))), wired) << json;
    EXPECT_EQ(ParseJobPlan(ToJsonText(*wired), "p.json"), wired) << json;
  }
}

}  // namespace
}  // namespace ucudnn
