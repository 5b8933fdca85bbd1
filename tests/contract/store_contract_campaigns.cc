// Campaigns.

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

CampaignRecord TestCampaign(const std::string& key, UnixMillis begins_ms) {
  CampaignRecord campaign;
  campaign.key = key;
  campaign.request = "{\"network\":\"" + key + "\"}";
  campaign.network_revision = 3;
  campaign.ended_before = 2;
  campaign.progress = "{}";
  campaign.created_ms = begins_ms;
  campaign.updated_ms = begins_ms;
  return campaign;
}

std::vector<std::string> Keys(const std::vector<CampaignRecord>& campaigns) {
  std::vector<std::string> keys;
  for (const CampaignRecord& campaign : campaigns) keys.push_back(campaign.key);
  return keys;
}

TEST_P(StoreContract, KeepsARunningCampaignOnce) {
  CampaignRecord expected = TestCampaign("a", 100);
  expected.id = store().campaigns.BeginCampaign(expected).value();
  EXPECT_EQ(store().campaigns.BeginCampaign(TestCampaign("a", 150)),
            expected.id);
  EXPECT_EQ(store().campaigns.GetCampaign(expected.id).value(), expected);
  ASSERT_TRUE(store().campaigns.UpdateCampaign("a", "{1}", false, 200));
  expected.progress = "{1}";
  expected.updated_ms = 200;
  EXPECT_EQ(store().campaigns.GetCampaign(expected.id).value(), expected);
  EXPECT_EQ(store().campaigns.GetCampaign(expected.id + 1).error().code,
            Code::kNotFound);
}

TEST_P(StoreContract, EndsACampaignForGoodAfterAMinute) {
  const auto first = store().campaigns.BeginCampaign(TestCampaign("a", 100));
  ASSERT_TRUE(store().campaigns.UpdateCampaign("a", "{1}", true, 1000));
  // Neither progress looked at before nor after its end changes it.
  ASSERT_TRUE(store().campaigns.UpdateCampaign("a", "{0}", false, 900));
  ASSERT_TRUE(store().campaigns.UpdateCampaign("a", "{2}", false, 1100));
  EXPECT_EQ(store().campaigns.GetCampaign(*first)->progress, "{1}");
  EXPECT_EQ(store().campaigns.GetCampaign(*first)->finished_ms, 1000);
  EXPECT_THAT(store().campaigns.ListRunningCampaigns(9).value(), IsEmpty());
  // Asked for again soon, it goes on; later, there is another one.
  EXPECT_EQ(store().campaigns.BeginCampaign(TestCampaign("a", 2000)), *first);
  EXPECT_EQ(store().campaigns.GetCampaign(*first)->finished_ms, 0);
  ASSERT_TRUE(store().campaigns.UpdateCampaign("a", "{3}", true, 3000));
  EXPECT_GT(
      store()
          .campaigns.BeginCampaign(TestCampaign("a", 3000 + kCampaignGoesOnMs))
          .value(),
      *first);
}

TEST_P(StoreContract, ListsCampaignsNewestFirstAndRunningOnesByAge) {
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_TRUE(store().campaigns.BeginCampaign(TestCampaign(key, 100)));
  }
  ASSERT_TRUE(store().campaigns.UpdateCampaign("a", "{}", false, 300));
  ASSERT_TRUE(store().campaigns.UpdateCampaign("b", "{}", true, 200));
  const auto newest = store().campaigns.ListCampaigns(2, 0).value();
  EXPECT_THAT(Keys(newest), ElementsAre("c", "b"));
  EXPECT_THAT(Keys(store().campaigns.ListCampaigns(2, newest[1].id).value()),
              ElementsAre("a"));
  EXPECT_THAT(Keys(store().campaigns.ListRunningCampaigns(9).value()),
              ElementsAre("c", "a"));
  EXPECT_THAT(Keys(store().campaigns.ListRunningCampaigns(1).value()),
              ElementsAre("c"));
}

}  // namespace
}  // namespace ucudnn
