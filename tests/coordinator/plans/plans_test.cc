// Stored plans, and requests that were answered before.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "base/accuracy.h"
#include "base/onnx/network_file.h"
#include "coordinator/coordinator.h"
#include "coordinator/measuring/plan_inputs.h"
#include "coordinator/networks/stored_network.h"
#include "proto/convert.h"
#include "proto/convert_plan.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/support/fake_clock.h"
#include "tests/support/paths.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using test::kKind;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Two coordinators over one database.
class PlansTest : public ::testing::Test {
 protected:
  PlansTest() {
    UCUDNN_CHECK(one_.networks.PutNetwork(test::PutTiny()).has_value());
    request_.set_network("tiny");
    request_.set_batch(4);
    request_.set_batch_policy("undivided");
    request_.add_device_kinds(kKind);
    UCUDNN_CHECK(
        one_.agents.Register(test::Agent("agent", "device")).has_value());
    UCUDNN_CHECK(!one_.plans.CreatePlan(request_).has_value());
    Measure(5000);
  }

  // Imports all that the plan needs.
  void Measure(std::int64_t time_ns) {
    v1::Profile profile;
    profile.set_id(kKind);
    const auto tasks = one_.measuring.ListTasks({}).value();
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
    UCUDNN_CHECK(two_.measuring.PutProfile(profile).has_value());
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
  const v1::Plan first = one_.plans.CreatePlan(request_).value();
  for (Coordinator* coordinator : {&one_, &two_, &one_, &two_}) {
    EXPECT_EQ(coordinator->plans.CreatePlan(request_)->SerializeAsString(),
              first.SerializeAsString());
  }
  // Measured anew, through the other coordinator.
  Measure(7000);
  const v1::Plan second = one_.plans.CreatePlan(request_).value();
  EXPECT_NE(second.id(), first.id());
  EXPECT_GT(second.predicted_ns(), first.predicted_ns());
  EXPECT_EQ(two_.plans.CreatePlan(request_)->id(), second.id());
}

TEST_F(PlansTest, UsesNoAlgorithmThatErredAtABatchThatItDoesNotNeed) {
  request_.set_max_error(1e-5);
  ASSERT_TRUE(one_.plans.CreatePlan(request_));
  v1::Profile profile;
  profile.set_id(kKind);
  v1::ProblemProfile& problem = *profile.add_problems();
  problem.set_problem(one_.measuring.ListTasks({})->tasks(0).problem());
  v1::Measurement& point = *problem.add_measurements();
  point.set_batch(1);
  point.set_algorithm("GEMM");
  point.set_precision("FP32");
  point.set_time_ns(5000);
  point.set_error_ppt(PartsPerTrillion(1e-3));
  ASSERT_TRUE(one_.measuring.PutProfile(profile));
  const auto plan = one_.plans.CreatePlan(request_);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("max_error 0.001"));
}

TEST_F(PlansTest, PredictsWhatTheDeviceSustainsOnceThatIsKnown) {
  const v1::Plan first = one_.plans.CreatePlan(request_).value();
  EXPECT_FALSE(first.has_under_load_ns());
  // Two kernels of 2 * 3 * 8 * 9 * 64 operations an image, 5 us each for four.
  DeviceModel model = DeviceModelPreset("K40").value();
  model.arithmetic.fp32 = 2 * 3 * 8 * 9 * 64 * 4 / 5.0;
  model.loaded = model.arithmetic;
  model.loaded.fp32 *= 0.8;
  v1::Profile profile;
  profile.set_id(kKind);
  *profile.mutable_device_model()->mutable_model() = ToProto(model);
  ASSERT_TRUE(two_.measuring.PutProfile(profile));
  const v1::Plan second = one_.plans.CreatePlan(request_).value();
  EXPECT_NE(second.id(), first.id());
  EXPECT_EQ(second.predicted_ns(), 10'000);
  EXPECT_NEAR(static_cast<double>(second.under_load_ns()), 12'500, 1);
  EXPECT_THAT(second.reasons(), Contains(HasSubstr("25 % more")));
  EXPECT_EQ(two_.plans.CreatePlan(request_)->id(), second.id());
}

TEST_F(PlansTest, GivesNoDeviceMoreImagesThanItsMemoryHolds) {
  v1::PutNetworkRequest put;
  put.set_name("resnet18");
  put.set_content(
      ReadNetworkContents(test::DataPath("onnx/resnet18.onnx"), {}).value());
  ASSERT_TRUE(one_.networks.PutNetwork(put));
  request_.set_network("resnet18");
  request_.set_batch(8);
  ASSERT_EQ(one_.plans.CreatePlan(request_).error().code, Code::kAborted);
  Measure(5000);
  const v1::Plan unknown = one_.plans.CreatePlan(request_).value();
  EXPECT_THAT(unknown.reasons(), Contains(HasSubstr("memory not considered")));
  const auto with = [&](Bytes memory) {
    DeviceModel model = DeviceModelPreset("K40").value();
    model.memory = memory;
    v1::Profile profile;
    profile.set_id(kKind);
    *profile.mutable_device_model()->mutable_model() = ToProto(model);
    UCUDNN_CHECK(one_.measuring.PutProfile(profile).has_value());
    return one_.plans.CreatePlan(request_);
  };
  const auto enough = with(10_GiB);
  ASSERT_TRUE(enough) << enough.error().message;
  EXPECT_EQ(enough->ranks(0).batch(), 8);
  EXPECT_THAT(enough->reasons(),
              Not(Contains(HasSubstr("memory not considered"))));
  const auto little = with(150_MiB);
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(little.error().message,
              AllOf(HasSubstr(fmt::format("images on {} with 150 MiB", kKind)),
                    HasSubstr("--memory-budget")));
}

TEST_F(PlansTest, MakesAPlanAnewThatAnotherCoordinatorDeleted) {
  const v1::Plan plan = one_.plans.CreatePlan(request_).value();
  v1::DeleteRequest deletion;
  deletion.set_id(std::to_string(plan.id()));
  ASSERT_TRUE(two_.plans.DeletePlan(deletion));
  const v1::Plan again = one_.plans.CreatePlan(request_).value();
  EXPECT_GT(again.id(), plan.id());
  EXPECT_EQ(one_.plans.GetPlan(Id(plan.id())).error().code, Code::kNotFound);
}

TEST_F(PlansTest, ForgetsDeletedPlansOnceItLooksForThem) {
  const v1::Plan plan = one_.plans.CreatePlan(request_).value();
  ASSERT_TRUE(one_.upkeep.Maintain());
  const PlanBytes bytes = one_.plans.GetPlanBytes(Id(plan.id())).value();
  EXPECT_EQ(*bytes, plan.SerializeAsString());
  EXPECT_EQ(one_.plans.GetPlanBytes(Id(plan.id())).value(), bytes) << "kept";
  v1::DeleteRequest deletion;
  deletion.set_id(std::to_string(plan.id()));
  ASSERT_TRUE(two_.plans.DeletePlan(deletion));
  EXPECT_FALSE(two_.plans.GetPlan(Id(plan.id())));
  ASSERT_TRUE(one_.upkeep.Maintain());
  EXPECT_EQ(one_.plans.GetPlan(Id(plan.id())).error().code, Code::kNotFound);
}

TEST_F(PlansTest, AsksTheDatabaseIfItHasNotLookedForDeletionsLately) {
  const v1::Plan plan = one_.plans.CreatePlan(request_).value();
  ASSERT_TRUE(one_.plans.GetPlan(Id(plan.id())));
  v1::DeleteRequest deletion;
  deletion.set_id(std::to_string(plan.id()));
  ASSERT_TRUE(two_.plans.DeletePlan(deletion));
  clock_.Advance(std::chrono::milliseconds(PlanCache::kTrustedMs));
  EXPECT_EQ(one_.plans.GetPlan(Id(plan.id())).error().code, Code::kNotFound);
}

// Of two solvers' plans for the same inputs, only this one's is served.
TEST_F(PlansTest, LeavesPlansOfOtherSolversAlone) {
  PlanInputs inputs =
      LookUp(store_->agents, store_->networks, FromProto(request_).value())
          .value();
  ASSERT_TRUE(LoadProfiles(store_->measurements, &inputs));
  for (const int version : {kSolverVersion - 1, kSolverVersion}) {
    PlanRecord record;
    record.key = Sha256(
        InputsText(inputs.network, inputs.request, inputs.profiles, version));
    const std::int64_t stored =
        store_->plans.CreatePlan(record).value().plan.id;
    const bool served = two_.plans.CreatePlan(request_).value().id() == stored;
    EXPECT_EQ(served, version == kSolverVersion) << version;
    v1::DeleteRequest deletion;
    deletion.set_id(std::to_string(two_.plans.CreatePlan(request_)->id()));
    ASSERT_TRUE(two_.plans.DeletePlan(deletion));
  }
}

// A coordinator that ends searches for memory plans at once, until it is given
// time.
class CutOffPlansTest : public ::testing::Test {
 protected:
  static CoordinatorOptions SearchingFor(std::chrono::milliseconds time) {
    CoordinatorOptions options;
    options.memory_plan_time = time;
    return options;
  }

  CutOffPlansTest() {
    UCUDNN_CHECK(coordinator_.networks.PutNetwork(test::PutTiny(test::kChain))
                     .has_value());
    request_.set_network("tiny");
    request_.set_batch(64);
    request_.add_device_kinds(kKind);
    request_.mutable_memory()->set_budget_bytes((12_MiB).count());
    UCUDNN_CHECK(coordinator_.agents.Register(test::Agent("agent", "device"))
                     .has_value());
    constexpr std::array<std::int64_t, 7> kBatches = {1, 2, 4, 8, 16, 32, 64};
    v1::Profile profile = test::Measured(kKind, 10, kBatches, test::kChain);
    *profile.mutable_device_model()->mutable_model() =
        ToProto(DeviceModelPreset("K40").value());
    UCUDNN_CHECK(coordinator_.measuring.PutProfile(profile).has_value());
  }

  FakeClock clock_{1000};
  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  Coordinator coordinator_{SearchingFor(std::chrono::milliseconds(0)), *store_,
                           clock_};
  v1::PlanRequest request_;
};

TEST_F(CutOffPlansTest, AnswerNoLaterRequest) {
  const auto first = coordinator_.plans.CreatePlan(request_);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->cut_off());
  EXPECT_THAT(first->reasons(), Contains(HasSubstr("cut off after")));
  // Another search with as little time finds nothing faster.
  EXPECT_EQ(coordinator_.plans.CreatePlan(request_)->id(), first->id());

  coordinator_.context.Reconfigure(SearchingFor(std::chrono::minutes(10)));
  const v1::Plan second = coordinator_.plans.CreatePlan(request_).value();
  EXPECT_FALSE(second.cut_off());
  EXPECT_LT(second.predicted_ns(), first->predicted_ns());
  // Now there is nothing to search for.
  coordinator_.context.Reconfigure(SearchingFor(std::chrono::milliseconds(0)));
  EXPECT_EQ(coordinator_.plans.CreatePlan(request_)->id(), second.id());
  Coordinator restarted(SearchingFor(std::chrono::milliseconds(0)), *store_,
                        clock_);
  EXPECT_EQ(restarted.plans.CreatePlan(request_)->id(), second.id());
  // Jobs may have the first.
  v1::GetRequest get;
  get.set_id(std::to_string(first->id()));
  EXPECT_TRUE(coordinator_.plans.GetPlan(get)->cut_off());
}

TEST_F(CutOffPlansTest, GiveWayToFasterOnes) {
  const v1::Plan made = coordinator_.plans.CreatePlan(request_).value();
  // As if its search had found less.
  ASSERT_TRUE(store_->database->Write([&](SqlTransaction& sql) {
    return sql.Execute(
        "UPDATE plans SET predicted_ns = 2 * predicted_ns WHERE id = $1",
        {made.id()});
  }));

  const v1::Plan faster = coordinator_.plans.CreatePlan(request_).value();
  EXPECT_NE(faster.id(), made.id());
  EXPECT_TRUE(faster.cut_off());
  EXPECT_EQ(faster.predicted_ns(), made.predicted_ns());
  EXPECT_EQ(coordinator_.plans.CreatePlan(request_)->id(), faster.id());
}

TEST_F(PlansTest, ListsPlansWithoutRanksNewestFirst) {
  const v1::Plan first = one_.plans.CreatePlan(request_).value();
  Measure(7000);
  const v1::Plan second = one_.plans.CreatePlan(request_).value();
  for (int i = 0; i < 2; ++i) {
    const auto listed = one_.plans.ListPlans({}).value();
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
