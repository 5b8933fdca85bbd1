#include "client/config/dropin_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Environment With(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(DropInSettingsTest, HasDefaults) {
  const auto settings = ResolveDropInSettings(With({{"HOME", "/home/x"}}));
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_FALSE(settings->disabled);
  EXPECT_EQ(settings->workspace_limit, std::nullopt);
  EXPECT_FALSE(settings->NamesLimit());
  EXPECT_EQ(settings->MostWorkspace(), 64_MiB);
  EXPECT_EQ(settings->graph_memory, 64_MiB);
  EXPECT_EQ(settings->policy, BatchPolicy::kPowerOfTwo);
  EXPECT_EQ(settings->cache_dir, "/home/x/.cache/ucudnn");
}

TEST(DropInSettingsTest, ReadsTheEnvironment) {
  const auto settings =
      ResolveDropInSettings(With({{"UCUDNN_DISABLE", "1"},
                                  {"UCUDNN_WORKSPACE_LIMIT", "8MiB"},
                                  {"UCUDNN_TOTAL_WORKSPACE_SIZE", "1GiB"},
                                  {"UCUDNN_GRAPH_MEMORY", "0"},
                                  {"UCUDNN_BATCH_SIZE_POLICY", "all"},
                                  {"UCUDNN_PLAN_FILE", "/p.json"},
                                  {"UCUDNN_NETWORK_FILE", "/n.csv"},
                                  {"UCUDNN_COORDINATOR", "a:1, http://[::1]:2"},
                                  {"UCUDNN_CA", "/ca"},
                                  {"UCUDNN_TOKEN_FILE", "/t"},
                                  {"UCUDNN_CACHE_DIR", "/c"},
                                  {"UCUDNN_DETERMINISTIC", "1"},
                                  {"UCUDNN_BRANCHES", "1"},
                                  {"UCUDNN_VERBOSE", "0"}}));
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_TRUE(settings->disabled);
  EXPECT_EQ(settings->workspace_limit, 8_MiB);
  EXPECT_EQ(settings->MostWorkspace(), 1_GiB);
  EXPECT_EQ(settings->graph_memory, 0_B);
  EXPECT_EQ(settings->policy, BatchPolicy::kAll);
  EXPECT_EQ(settings->plan_file, "/p.json");
  EXPECT_EQ(settings->network_file, "/n.csv");
  EXPECT_THAT(settings->coordinators, ElementsAre("a:1", "http://[::1]:2"));
  EXPECT_EQ(settings->credentials, (CredentialFiles{"/ca", "", "", "/t"}));
  EXPECT_EQ(settings->cache_dir, "/c/branches");
  EXPECT_TRUE(settings->deterministic);
  EXPECT_TRUE(settings->branches);
  EXPECT_FALSE(settings->verbose);
}

TEST(DropInSettingsTest, TakesThePlanFilesNetworkIfATotalIsDivided) {
  const auto total =
      ResolveDropInSettings(With({{"UCUDNN_PLAN_FILE", "/p.json"},
                                  {"UCUDNN_TOTAL_WORKSPACE_SIZE", "1GiB"}}));
  EXPECT_EQ(total->network_file, "/p.json");
  const auto each =
      ResolveDropInSettings(With({{"UCUDNN_PLAN_FILE", "/p.json"}}));
  EXPECT_EQ(each->network_file, "");
}

TEST(DropInSettingsTest, NamesTheVariableThatIsWrong) {
  for (const auto& [name, value] :
       {std::pair("UCUDNN_DISABLE", "yes"),
        std::pair("UCUDNN_WORKSPACE_LIMIT", "much"),
        std::pair("UCUDNN_GRAPH_MEMORY", "little"),
        std::pair("UCUDNN_COORDINATOR", "nowhere"),
        std::pair("UCUDNN_BATCH_SIZE_POLICY", "some")}) {
    const auto settings = ResolveDropInSettings(With({{name, value}}));
    ASSERT_FALSE(settings);
    EXPECT_THAT(settings.error().message,
                AllOf(HasSubstr(name), HasSubstr(value)));
  }
}

}  // namespace
}  // namespace ucudnn
