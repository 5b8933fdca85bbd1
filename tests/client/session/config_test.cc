#include "client/session/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/client/tiny_network.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Environment With(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

SessionOptions Options() {
  SessionOptions options;
  options.network = TinyNetwork();
  options.batch = BatchSize(8);
  return options;
}

TEST(ResolveConfigTest, HasDefaults) {
  const auto config = ResolveConfig(Options(), With({{"HOME", "/home/me"}}));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->request.network, "tiny");
  EXPECT_EQ(config->request.workspace_limit, 64_MiB);
  EXPECT_EQ(config->request.total_workspace, 0_B);
  EXPECT_EQ(config->request.policy, BatchPolicy::kPowerOfTwo);
  EXPECT_EQ(config->cache_dir, "/home/me/.cache/ucudnn");
  EXPECT_EQ(config->coordinators, "");
  EXPECT_FALSE(config->limits_chosen);
  EXPECT_FALSE(config->auto_replan);
  EXPECT_THAT(config->kernels, SizeIs(5));
}

TEST(ResolveConfigTest, TakesTheEnvironment) {
  const auto config =
      ResolveConfig(Options(), With({{"UCUDNN_COORDINATOR", "a:1,b:2"},
                                     {"UCUDNN_WORKSPACE_LIMIT", "8MiB"},
                                     {"UCUDNN_TOTAL_WORKSPACE_SIZE", "1GiB"},
                                     {"UCUDNN_BATCH_SIZE_POLICY", "undivided"},
                                     {"UCUDNN_PLAN_FILE", "/p.json"},
                                     {"UCUDNN_CACHE_DIR", "/c"},
                                     {"UCUDNN_AUTO_REPLAN", "1"},
                                     {"HOME", "/home/me"}}));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->coordinators, "a:1,b:2");
  EXPECT_EQ(config->request.workspace_limit, 8_MiB);
  EXPECT_EQ(config->request.total_workspace, 1_GiB);
  EXPECT_EQ(config->request.policy, BatchPolicy::kUndivided);
  EXPECT_EQ(config->plan_file, "/p.json");
  EXPECT_EQ(config->cache_dir, "/c");
  EXPECT_TRUE(config->limits_chosen);
  EXPECT_TRUE(config->auto_replan);
}

TEST(ResolveConfigTest, LetsOptionsOverrideTheEnvironment) {
  SessionOptions options = Options();
  options.coordinators = "";
  options.workspace_limit = 1_MiB;
  options.policy = BatchPolicy::kAll;
  options.cache_dir = "";
  const auto config =
      ResolveConfig(options, With({{"UCUDNN_COORDINATOR", "nonsense"},
                                   {"UCUDNN_WORKSPACE_LIMIT", "nonsense"},
                                   {"UCUDNN_BATCH_SIZE_POLICY", "nonsense"},
                                   {"UCUDNN_CACHE_DIR", "/c"}}));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->coordinators, "");
  EXPECT_EQ(config->request.workspace_limit, 1_MiB);
  EXPECT_EQ(config->request.policy, BatchPolicy::kAll);
  EXPECT_EQ(config->cache_dir, "");
}

TEST(ResolveConfigTest, NamesTheVariableThatIsWrong) {
  for (const auto& [name, value] : {std::pair{"UCUDNN_COORDINATOR", "nowhere"},
                                    {"UCUDNN_WORKSPACE_LIMIT", "64 MegaBytes"},
                                    {"UCUDNN_TOTAL_WORKSPACE_SIZE", "-1"},
                                    {"UCUDNN_BATCH_SIZE_POLICY", "some"}}) {
    const auto config = ResolveConfig(Options(), With({{name, value}}));
    ASSERT_FALSE(config) << name;
    EXPECT_EQ(config.error().code, Code::kInvalidArgument);
    EXPECT_THAT(config.error().message, HasSubstr(name));
    EXPECT_THAT(config.error().message, HasSubstr(value));
    // Set but empty is not set.
    EXPECT_TRUE(ResolveConfig(Options(), With({{name, ""}})));
  }
}

TEST(ResolveConfigTest, RefusesABatchOutOfRange) {
  SessionOptions options = Options();
  for (const std::int64_t batch : {0LL, -1LL, (1LL << 24) + 1}) {
    options.batch = BatchSize(batch);
    EXPECT_THAT(ResolveConfig(options, With({})).error().message,
                HasSubstr(std::to_string(batch)));
  }
}

TEST(ResolveConfigTest, RequiresANetwork) {
  SessionOptions options;
  options.batch = BatchSize(8);
  EXPECT_EQ(ResolveConfig(options, With({})).error().message,
            "network or network_file is required");
  options.network.name = "tiny";
  EXPECT_TRUE(ResolveConfig(options, With({})));
}

TEST(ExplicitOptionsTest, DifferIfAnOptionDoes) {
  using Change = void (*)(SessionOptions*);
  for (const Change change :
       {Change([](SessionOptions* o) { o->plan_file = "p.json"; }),
        Change([](SessionOptions* o) { o->coordinators = "a:1"; }),
        Change([](SessionOptions* o) { o->job_name = "night"; }),
        Change([](SessionOptions* o) { o->auto_replan = false; })}) {
    SessionOptions other = Options();
    change(&other);
    EXPECT_NE(ExplicitOptions(other), ExplicitOptions(Options()));
  }
}

TEST(ExplicitOptionsTest, DifferIfTheLayersDo) {
  SessionOptions other = Options();
  EXPECT_EQ(ExplicitOptions(other), ExplicitOptions(Options()));
  other.network.layers[1].geometry.filters = 6;
  EXPECT_NE(ExplicitOptions(other), ExplicitOptions(Options()));
}

TEST(ShortHashTest, IsTheFnvHash) {
  // Test vectors by the hash's authors.
  EXPECT_EQ(ShortHash(""), "cbf29ce484222325");
  EXPECT_EQ(ShortHash("foobar"), "85944171f73967e8");
}

}  // namespace
}  // namespace ucudnn
