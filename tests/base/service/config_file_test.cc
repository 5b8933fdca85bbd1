#include "base/service/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/files/file.h"
#include "base/service/address.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ConfigFileTest : public ::testing::Test {
 protected:
  ConfigFileTest() {
    AddConfigOption(&app_, &config_);
    app_.add_option("--name", name_);
    app_.add_option("--lease-ms", lease_ms_)->check(CLI::Range(100, 1000));
    app_.add_option("--tolerance", tolerance_);
    app_.add_option("--gpus", gpus_)->delimiter(',');
    app_.add_option("--from", from_)->envname("UCUDNN_CONFIG_FILE_TEST");
  }

  Status Read(const std::string& text) {
    UCUDNN_CHECK(ReplaceFile(path_, text).has_value());
    return ReadConfigFile(path_, app_);
  }
  std::string Refusal(const std::string& text) {
    const Status read = Read(text);
    if (read) return "read";
    EXPECT_EQ(read.error().code, Code::kInvalidArgument);
    return read.error().message;
  }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "a.toml";
  std::string config_;
  std::string name_ = "default";
  std::int64_t lease_ms_ = 500;
  double tolerance_ = 0.1;
  std::vector<int> gpus_;
  std::string from_;
  CLI::App app_;
};

TEST_F(ConfigFileTest, SetsTheOptionsThatItNames) {
  const Status read = Read(
      "# comment\n"
      "name = \"node 1\"\n"
      "lease-ms = 1_000\n"
      "tolerance = 0.25\n"
      "gpus = [0, 2]\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(name_, "node 1");
  EXPECT_EQ(lease_ms_, 1000);
  EXPECT_EQ(tolerance_, 0.25);
  EXPECT_THAT(gpus_, ElementsAre(0, 2));
}

TEST_F(ConfigFileTest, LeavesTheOthersAsTheyAre) {
  ASSERT_TRUE(Read(""));
  EXPECT_EQ(name_, "default");
  EXPECT_EQ(lease_ms_, 500);
}

TEST_F(ConfigFileTest, IsOverriddenByTheCommandLineAndTheEnvironment) {
  ASSERT_TRUE(
      Read("name = \"file\"\nlease-ms = 200\nfrom = \"file\"\n"
           "gpus = [0, 2]\n"));
  setenv("UCUDNN_CONFIG_FILE_TEST", "environment", 1);
  app_.parse("--name line --gpus 1");
  unsetenv("UCUDNN_CONFIG_FILE_TEST");
  EXPECT_EQ(name_, "line");
  EXPECT_THAT(gpus_, ElementsAre(1));
  EXPECT_EQ(from_, "environment");
  EXPECT_EQ(lease_ms_, 200);
}

TEST_F(ConfigFileTest, RefusesUnknownKeys) {
  EXPECT_EQ(Refusal("name = \"a\"\n\nleese-ms = 200\n"),
            path_ +
                ":3: there is no setting 'leese-ms'; accepted are name, "
                "lease-ms, tolerance, gpus, from");
  EXPECT_THAT(Refusal("config = \"b.toml\"\n"), HasSubstr("no setting"));
  EXPECT_THAT(Refusal("help = true\n"), HasSubstr("no setting"));
  EXPECT_THAT(Refusal("[serve]\nname = \"a\"\n"),
              StartsWith(path_ + ":1: there is no setting 'serve'"));
}

TEST_F(ConfigFileTest, RefusesAValueThatItsOptionWouldRefuse) {
  EXPECT_THAT(Refusal("\nlease-ms = 5\n"),
              AllOf(StartsWith(path_ + ":2: lease-ms = '5': "),
                    HasSubstr("100"), HasSubstr("1000")));
  EXPECT_THAT(
      Refusal("lease-ms = \"soon\"\n"),
      AllOf(StartsWith(path_ + ":1: lease-ms = 'soon': "), HasSubstr("100")));
  EXPECT_EQ(Refusal("tolerance = \"x\"\n"),
            path_ + ":1: tolerance = 'x': FLOAT is accepted");
  EXPECT_THAT(Refusal("lease-ms = 200.5\n"), HasSubstr("'200.5'"));
  EXPECT_THAT(Refusal("gpus = [0, \"x\"]\n"), HasSubstr("'0,x'"));
}

TEST_F(ConfigFileTest, RefusesTypesThatNoOptionAccepts) {
  EXPECT_THAT(Refusal("name = {a = 1}\n"),
              StartsWith(path_ + ":1: name: a string, a number"));
  EXPECT_THAT(Refusal("name = 2020-01-01\n"), HasSubstr("a string, a number"));
  EXPECT_THAT(Refusal("gpus = []\n"), HasSubstr("at least one value"));
  EXPECT_THAT(Refusal("name = [\"a\", \"b\"]\n"), HasSubstr("'a,b'"));
}

TEST_F(ConfigFileTest, NamesTheLineOfASyntaxError) {
  EXPECT_THAT(Refusal("name = \"a\"\nlease-ms\n"), StartsWith(path_ + ":"));
  EXPECT_THAT(Refusal("name = \"a\"\nname = \"b\"\n"),
              StartsWith(path_ + ":2: "));
}

TEST_F(ConfigFileTest, SaysWhichOfSeveralMistakesComesFirst) {
  EXPECT_THAT(Refusal("z = 1\na = 1\n"), StartsWith(path_ + ":1: "));
}

TEST_F(ConfigFileTest, NamesAMissingFile) {
  const Status read = ReadConfigFile(folder_ / "none.toml", app_);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kInvalidArgument);
  EXPECT_THAT(read.error().message, HasSubstr("none.toml"));
}

TEST(IsHostAndPortTest, TellsAddressesFromOtherText) {
  for (const char* good : {"a:1", "a.b-c:7460", "[::1]:65535", "10.0.0.1:9"}) {
    EXPECT_TRUE(IsHostAndPort(good)) << good;
  }
  for (const char* bad : {"", "a", "a:", ":7460", "a:65536", "a:x", "::1:7460",
                          "[]:1", "http://a:1", "a b:1", "nonsense"}) {
    EXPECT_FALSE(IsHostAndPort(bad, 0)) << bad;
  }
  EXPECT_FALSE(IsHostAndPort("a:0"));
  EXPECT_TRUE(IsHostAndPort("a:0", 0));
}

}  // namespace
}  // namespace ucudnn
