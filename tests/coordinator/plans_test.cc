// Stored plans, and requests that were answered before.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "proto/convert.h"
#include "tests/coordinator/tiny_cluster.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using test::kKind;
using ::testing::Contains;
using ::testing::HasSubstr;

// Two coordinators over one database.
class PlansTest : public ::testing::Test {
 protected:
  PlansTest() {
    UCUDNN_CHECK(one_.PutNetwork(test::PutTiny()).has_value());
    request_.set_network("tiny");
    request_.set_batch(4);
    request_.set_batch_policy("undivided");
    request_.add_device_kinds(kKind);
    UCUDNN_CHECK(one_.Register(test::Agent("agent", "device")).has_value());
    UCUDNN_CHECK(!one_.CreatePlan(request_).has_value());
    Measure(5000);
  }

  // Imports all that the plan needs.
  void Measure(std::int64_t time_ns) {
    v1::Profile profile;
    profile.set_id(kKind);
    const auto tasks = one_.ListTasks({}).value();
    for (const v1::QueuedTask& task : tasks.tasks()) {
      v1::ProblemProfile& problem = *profile.add_problems();
      problem.set_problem(task.problem());
      v1::Measurement& point = *problem.add_measurements();
      point.set_batch(task.batch());
      point.set_algorithm("GEMM");
      point.set_precision("FP32");
      point.set_time_ns(time_ns);
      point.set_repeats(1);
      v1::CompleteBatch& complete = *problem.add_complete();
      complete.set_batch(task.batch());
      complete.set_max_workspace_bytes(task.max_workspace_bytes());
    }
    UCUDNN_CHECK(two_.PutProfile(profile).has_value());
  }

  static v1::GetRequest Id(std::int64_t id) {
    v1::GetRequest get;
    get.set_id(std::to_string(id));
    return get;
  }

  FakeClock clock_{1000};
  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  Coordinator one_{CoordinatorOptions(), *store_, clock_};
  Coordinator two_{CoordinatorOptions(), *store_, clock_};
  v1::PlanRequest request_;
};

TEST_F(PlansTest, AnswersAnEqualRequestWithTheSamePlanUntilWhatItNeedsChanges) {
  const v1::Plan first = one_.CreatePlan(request_).value();
  for (Coordinator* coordinator : {&one_, &two_, &one_, &two_}) {
    EXPECT_EQ(coordinator->CreatePlan(request_)->SerializeAsString(),
              first.SerializeAsString());
  }
  // Measured anew, through the other coordinator.
  Measure(7000);
  const v1::Plan second = one_.CreatePlan(request_).value();
  EXPECT_NE(second.id(), first.id());
  EXPECT_GT(second.predicted_ns(), first.predicted_ns());
  EXPECT_EQ(two_.CreatePlan(request_)->id(), second.id());
}

TEST_F(PlansTest, PredictsWhatTheDeviceSustainsOnceThatIsKnown) {
  const v1::Plan first = one_.CreatePlan(request_).value();
  EXPECT_FALSE(first.has_under_load_ns());
  // Two kernels of 2 * 3 * 8 * 9 * 64 operations an image, 5 us each for four.
  DeviceModel model = DeviceModelPreset("K40").value();
  model.arithmetic.fp32 = 2 * 3 * 8 * 9 * 64 * 4 / 5.0;
  model.loaded = model.arithmetic;
  model.loaded.fp32 *= 0.8;
  v1::Profile profile;
  profile.set_id(kKind);
  *profile.mutable_device_model()->mutable_model() = ToProto(model);
  ASSERT_TRUE(two_.PutProfile(profile));
  const v1::Plan second = one_.CreatePlan(request_).value();
  EXPECT_NE(second.id(), first.id());
  EXPECT_EQ(second.predicted_ns(), 10'000);
  EXPECT_NEAR(static_cast<double>(second.under_load_ns()), 12'500, 1);
  EXPECT_THAT(second.reasons(), Contains(HasSubstr("25 % more")));
  EXPECT_EQ(two_.CreatePlan(request_)->id(), second.id());
}

TEST_F(PlansTest, MakesAPlanAnewThatAnotherCoordinatorDeleted) {
  const v1::Plan plan = one_.CreatePlan(request_).value();
  v1::DeleteRequest deletion;
  deletion.set_id(std::to_string(plan.id()));
  ASSERT_TRUE(two_.DeletePlan(deletion));
  const v1::Plan again = one_.CreatePlan(request_).value();
  EXPECT_GT(again.id(), plan.id());
  EXPECT_EQ(one_.GetPlan(Id(plan.id())).error().code, Code::kNotFound);
}

TEST_F(PlansTest, ForgetsDeletedPlansOnceItLooksForThem) {
  const v1::Plan plan = one_.CreatePlan(request_).value();
  ASSERT_TRUE(one_.Maintain());
  const PlanBytes bytes = one_.GetPlanBytes(Id(plan.id())).value();
  EXPECT_EQ(*bytes, plan.SerializeAsString());
  EXPECT_EQ(one_.GetPlanBytes(Id(plan.id())).value(), bytes) << "kept";
  v1::DeleteRequest deletion;
  deletion.set_id(std::to_string(plan.id()));
  ASSERT_TRUE(two_.DeletePlan(deletion));
  EXPECT_FALSE(two_.GetPlan(Id(plan.id())));
  ASSERT_TRUE(one_.Maintain());
  EXPECT_EQ(one_.GetPlan(Id(plan.id())).error().code, Code::kNotFound);
}

TEST_F(PlansTest, AsksTheDatabaseIfItHasNotLookedForDeletionsLately) {
  const v1::Plan plan = one_.CreatePlan(request_).value();
  ASSERT_TRUE(one_.GetPlan(Id(plan.id())));
  v1::DeleteRequest deletion;
  deletion.set_id(std::to_string(plan.id()));
  ASSERT_TRUE(two_.DeletePlan(deletion));
  clock_.Advance(std::chrono::milliseconds(PlanCache::kTrustedMs));
  EXPECT_EQ(one_.GetPlan(Id(plan.id())).error().code, Code::kNotFound);
}

TEST_F(PlansTest, ListsPlansWithoutRanksNewestFirst) {
  const v1::Plan first = one_.CreatePlan(request_).value();
  Measure(7000);
  const v1::Plan second = one_.CreatePlan(request_).value();
  for (int i = 0; i < 2; ++i) {
    const auto listed = one_.ListPlans({}).value();
    ASSERT_EQ(listed.plans_size(), 2);
    v1::Plan expected = second;
    expected.clear_ranks();
    EXPECT_EQ(listed.plans(0).SerializeAsString(),
              expected.SerializeAsString());
    EXPECT_EQ(listed.plans(1).id(), first.id());
  }
}

TEST(LruCacheTest, DropsWhatWasUsedLongestAgo) {
  LruCache<int, int> cache(10);
  for (int i = 1; i <= 3; ++i) cache.Put(i, std::make_shared<int>(i), 3);
  ASSERT_NE(cache.Find(1), nullptr);
  cache.Put(4, std::make_shared<int>(4), 3);
  EXPECT_EQ(cache.Find(2), nullptr);
  EXPECT_EQ(*cache.Find(1), 1);
  cache.Put(1, std::make_shared<int>(11), 1);
  EXPECT_EQ(*cache.Find(1), 11);
  EXPECT_NE(cache.Find(3), nullptr);
  cache.Put(5, std::make_shared<int>(5), 11);  // too large to keep
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(cache.Find(i), nullptr) << i;
}

}  // namespace
}  // namespace ucudnn
