// Networks and plans.

#include <algorithm>
#include <functional>

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_P(StoreContract, MakesARevisionOnlyForDifferentContent) {
  EXPECT_EQ(store().networks.PutNetwork(TestNetwork("n", "h1")), 1);
  EXPECT_EQ(store().networks.PutNetwork(TestNetwork("n", "h1")), 1);
  EXPECT_EQ(store().networks.PutNetwork(TestNetwork("n", "h2")), 2);
  // Returning to old content is a change too.
  EXPECT_EQ(store().networks.PutNetwork(TestNetwork("n", "h1")), 3);
  EXPECT_EQ(store().networks.PutNetwork(TestNetwork("m", "h1")), 1);

  NetworkRecord expected = TestNetwork("n", "h2");
  expected.revision = 2;
  EXPECT_EQ(store().networks.GetNetwork("n", 2).value(), expected);
  EXPECT_EQ(store().networks.GetNetwork("n")->revision, 3);
  EXPECT_EQ(store().networks.GetNetwork("n", 4).error().code, Code::kNotFound);
  EXPECT_EQ(store().networks.GetNetwork("x").error().code, Code::kNotFound);
  const auto listed = store().networks.ListNetworks(100).value();
  ASSERT_THAT(listed, SizeIs(2));
  EXPECT_EQ(listed[0].name, "m");
  EXPECT_EQ(listed[1].revision, 3);
  EXPECT_EQ(listed[1].layers, "[]h1");
  EXPECT_EQ(listed[1].source, "");
}

TEST_P(StoreContract, FindsANetworksFileByItsHash) {
  ASSERT_TRUE(store().networks.PutNetwork(TestNetwork("n", "h1")));
  ASSERT_TRUE(store().networks.PutNetwork(TestNetwork("n", "h2")));
  // Of an earlier revision, too.
  EXPECT_EQ(store().networks.FindSource("h1").value(),
            TestNetwork("n", "h1").source);
  EXPECT_EQ(store().networks.FindSource("h3").value(), std::nullopt);
  ASSERT_TRUE(store().networks.DeleteNetwork("n", TestAction("network n")));
  EXPECT_EQ(store().networks.FindSource("h1").value(), std::nullopt);
}

TEST_P(StoreContract, KeepsEveryByteOfNamesAndBlobs) {
  NetworkRecord network = TestNetwork("Überraschung 網絡 🦀", "h");
  network.revision = 1;
  network.source.clear();
  for (int i = 0; i < 1 << 20; ++i) {
    network.source += static_cast<char>(i * 7 + (i >> 8));
  }
  network.layers = std::string(1 << 20, 'x') + "é'\"\\$1";
  ASSERT_TRUE(store().networks.PutNetwork(network));
  EXPECT_TRUE(store().networks.GetNetwork(network.name).value() == network);
  network.source.clear();
  network.hash = "h2";
  EXPECT_EQ(store().networks.PutNetwork(network), 2);
  EXPECT_EQ(store().networks.GetNetwork(network.name)->source, "");
}

TEST_P(StoreContract, RefusesKeysAndTextsItCannotKeep) {
  const auto code = [&](const std::string& name, const std::string& hash) {
    NetworkRecord network = TestNetwork(name, "h" + hash);
    const auto revision = store().networks.PutNetwork(network);
    return revision ? Code::kOk : revision.error().code;
  };
  EXPECT_EQ(code("", ""), Code::kInvalidArgument);
  EXPECT_EQ(code(std::string(513, 'n'), ""), Code::kInvalidArgument);
  EXPECT_EQ(code(std::string(512, 'n'), ""), Code::kOk);
  for (const std::string& bad :
       {std::string("\xC0\xAF"), std::string("a\0b", 3), std::string("\x80"),
        std::string("\xED\xA0\x80"), std::string("\xF4\x90\x80\x80"),
        std::string("\xE2\x82"), std::string("\xF0\x80\x80\x80")}) {
    EXPECT_EQ(code("n", bad), Code::kInvalidArgument);
    EXPECT_EQ(code(bad, ""), Code::kInvalidArgument);
  }
  EXPECT_EQ(code("n", "\x7F\u0080\u07FF\uFFFD\U0010FFFF"), Code::kOk);
}

TEST_P(StoreContract, CreatesOnePlanForAKey) {
  const CreatedPlan first = store().plans.CreatePlan(TestPlan("k1")).value();
  EXPECT_FALSE(first.already);
  EXPECT_EQ(first.plan.predicted, TestPlan("k1").predicted);
  PlanRecord other = TestPlan("k1");
  other.body = "another";
  other.predicted = Nanoseconds(1);
  const CreatedPlan again = store().plans.CreatePlan(other).value();
  EXPECT_TRUE(again.already);
  EXPECT_EQ(again.plan, first.plan);
  const std::int64_t id = first.plan.id;
  EXPECT_EQ(store().plans.GetPlanBody(id), TestPlan("k1").body);
  EXPECT_EQ(store().plans.GetPlanOutline(id), TestPlan("k1").outline);
  EXPECT_EQ(store().plans.FindPlan("k1").value(), first.plan);
  EXPECT_EQ(store().plans.FindPlan("k2").value(), std::nullopt);
  EXPECT_EQ(store().plans.GetPlanBody(id + 1).error().code, Code::kNotFound);
  EXPECT_EQ(store().plans.GetPlanOutline(id + 1).error().code, Code::kNotFound);
}

TEST_P(StoreContract, KeepsEveryByteOfALargePlan) {
  PlanRecord plan = TestPlan("k");
  for (int i = 0; i < 3 << 20; ++i) {
    plan.body += static_cast<char>(i * 7 + (i >> 8));
  }
  const std::int64_t id = store().plans.CreatePlan(plan)->plan.id;
  EXPECT_TRUE(store().plans.GetPlanBody(id) == plan.body);
}

TEST_P(StoreContract, ListsPlansNewestFirstPageByPage) {
  std::vector<std::int64_t> ids;
  for (const char* key : {"a", "b", "c", "d"}) {
    ids.insert(ids.begin(), store().plans.CreatePlan(TestPlan(key))->plan.id);
  }
  EXPECT_TRUE(std::ranges::is_sorted(ids, std::greater()));
  const auto list = [&](std::int64_t limit, std::int64_t before = 0) {
    return store().plans.ListPlanIds(limit, before).value();
  };
  EXPECT_THAT(list(2), ElementsAre(ids[0], ids[1]));
  EXPECT_THAT(list(5, ids[1]), ElementsAre(ids[2], ids[3]));
  EXPECT_THAT(list(1, std::int64_t{1} << 40), ElementsAre(ids[0]));
  EXPECT_THAT(list(0), IsEmpty());
  EXPECT_EQ(store().plans.ListPlanIds(-1).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace ucudnn
