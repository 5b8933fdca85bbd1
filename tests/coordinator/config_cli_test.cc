// `ucudnn-coord` with a configuration file.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "tests/support/notify_socket.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ConfigCliTest : public ::testing::Test {
 protected:
  std::string Config(const std::string& text) const {
    UCUDNN_CHECK(ReplaceFile(folder_ / "coord.toml", text).has_value());
    return folder_ / "coord.toml";
  }
  static test::Finished Coord(const std::vector<std::string>& words) {
    std::vector<std::string> command = {test::ProgramPath("ucudnn-coord")};
    command.insert(command.end(), words.begin(), words.end());
    return test::Run(command);
  }

  test::TemporaryFolder folder_;
};

TEST_F(ConfigCliTest, RefusesAMalformedListenAddress) {
  const std::string file =
      Config("database = \"sqlite::memory:\"\nlisten = \"nonsense\"\n");
  for (const test::Finished& run :
       {Coord({"serve", "--config", file}), Coord({"check", file})}) {
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, AllOf(HasSubstr(file + ":2: listen = 'nonsense': "),
                               HasSubstr("host:port, such as 127.0.0.1:7460")));
  }
}

TEST_F(ConfigCliTest, RefusesAMalformedDatabaseUrl) {
  const test::Finished run = Coord({"check", Config("database = \"here\"\n")});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr(":1: database = 'here': "));
  EXPECT_THAT(run.err, HasSubstr("sqlite:///path/file.db"));
}

#ifdef UCUDNN_WITH_POSTGRES
// A word of the password would be in a log.
TEST_F(ConfigCliTest, NamesThePlaceOfAPasswordThatCannotBeReadAndNotIt) {
  for (const std::string password :
       {"secret@secret", "secret/secret", "secret%secret", "100%", "@secret",
        "s?ecret/@secret"}) {
    const test::Finished run =
        Coord({"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
               "--database", "postgresql://u:" + password + "@localhost:1/db"});
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("--database"), HasSubstr("%40")));
    EXPECT_THAT(run.err, Not(HasSubstr("ecret")));
    EXPECT_THAT(run.err, Not(HasSubstr("100%")));
  }
  const test::Finished words =
      Coord({"check", Config("database = \"host=db password=secret\"\n")});
  EXPECT_THAT(words.err, Not(HasSubstr("secret")));
}

TEST_F(ConfigCliTest, NamesTheServerThatCannotBeReachedAndNoPassword) {
  for (const auto& [place, server] :
       {std::pair{"localhost:1/db", "localhost:1"},
        {"127.0.0.1:1,[::1]:2/db", "127.0.0.1:1,[::1]:2"},
        {"/db?host=/nowhere&port=7", "/nowhere:7"}}) {
    const test::Finished run =
        Coord({"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
               "--database",
               std::string("postgresql://u:s?e%40c:r#e&t@") + place});
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_THAT(run.err, HasSubstr("the database at " + std::string(server)));
    EXPECT_THAT(run.err, Not(HasSubstr("c:r")));
  }
}
#endif

TEST_F(ConfigCliTest, AcceptsAValidFile) {
  const std::string text =
      "listen = \"0.0.0.0:7460\"\ndatabase = \"postgresql://db/u\"\n"
      "lease-ms = 60_000\nmeasure-workspace = \"2GiB\"\n";
  const test::Finished run =
      Coord({"check", Config(text + "insecure = true\n")});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("no errors found"));
  // What `serve` refuses.
  const test::Finished open = Coord({"check", Config(text)});
  EXPECT_EQ(open.status, 2);
  EXPECT_THAT(open.err, HasSubstr("--insecure"));
}

TEST_F(ConfigCliTest, ServesAsTheFileSaysUnlessTheCommandLineOverridesIt) {
  const std::string ready = folder_ / "ready.json";
  test::Process coord(
      {test::ProgramPath("ucudnn-coord"), "serve", "--config",
       Config("listen = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n"
              "database = \"sqlite:///nowhere/u.db\"\nready-file = \"" +
              ready + "\"\n"),
       "--database", "sqlite::memory:"},
      folder_ / "log");
  EXPECT_TRUE(test::WaitUntil(
      [&] { return !test::FileText(ready).empty() || !coord.running(); }));
  EXPECT_THAT(test::FileText(ready), HasSubstr("grpc_port"))
      << test::FileText(folder_ / "log");
  EXPECT_EQ(coord.Stop(), 0);
}

TEST_F(ConfigCliTest, KeepsOthersFromItsSqliteFile) {
  const std::string file = folder_ / "u.db";
  const std::string ready = folder_ / "ready.json";
  const std::vector<std::string> serve = {
      "serve",      "--listen",         "127.0.0.1:0",  "--http", "127.0.0.1:0",
      "--database", "sqlite://" + file, "--ready-file", ready};
  const test::Finished missing = Coord(serve);
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("there is no database " + file),
                                 HasSubstr("--create")));
  EXPECT_FALSE(std::filesystem::exists(file));
  std::vector<std::string> command = serve;
  command.insert(command.begin(), test::ProgramPath("ucudnn-coord"));
  command.emplace_back("--create");
  const auto start = [&] {
    std::filesystem::remove(ready);
    test::Process coord(command, folder_ / "log");
    EXPECT_TRUE(test::WaitUntil(
        [&] { return !test::FileText(ready).empty() || !coord.running(); }));
    EXPECT_TRUE(coord.running()) << test::FileText(folder_ / "log");
    return coord;
  };
  test::Process coord = start();
  std::filesystem::create_symlink(file, folder_ / "link.db");
  for (const char* name : {"u.db", "link.db"}) {
    std::vector<std::string> another = serve;
    another[6] = "sqlite://" + (folder_ / name);
    const test::Finished second = Coord(another);
    EXPECT_EQ(second.status, 1);
    EXPECT_THAT(second.err,
                HasSubstr(fmt::format("in use by process {}", coord.pid())));
  }
  coord.Kill();
  coord = start();
  EXPECT_EQ(coord.Stop(), 0);
}

TEST_F(ConfigCliTest, TellsTheServiceManagerWhenItServesLivesAndStops) {
  test::NotifySocket manager;
  const std::string ready = folder_ / "ready.json";
  test::Process coord(
      {test::ProgramPath("ucudnn-coord"), "serve", "--listen", "127.0.0.1:0",
       "--http", "127.0.0.1:0", "--database", "sqlite::memory:", "--ready-file",
       ready},
      folder_ / "log",
      {{"NOTIFY_SOCKET", manager.address()}, {"WATCHDOG_USEC", "100000"}});
  ASSERT_TRUE(test::WaitUntil([&] { return !manager.Received().empty(); }));
  EXPECT_EQ(manager.Received().front(), "READY=1");
  // It served before.
  EXPECT_THAT(test::FileText(ready), HasSubstr("grpc_port"));
  EXPECT_TRUE(test::WaitUntil([&] {
    return std::ranges::count(manager.Received(), "WATCHDOG=1") >= 2;
  }));
  EXPECT_EQ(coord.Stop(), 0);
  EXPECT_EQ(manager.Received().back(), "STOPPING=1");
}

TEST_F(ConfigCliTest, ServesOtherHostsOnlyOverTlsUnlessToldOtherwise) {
  const auto serve = [](const std::string& option, const std::string& value) {
    std::map<std::string, std::string> options = {
        {"--database", "sqlite::memory:"},
        {"--listen", "127.0.0.1:0"},
        {"--http", "127.0.0.1:0"}};
    options[option] = value;
    std::vector<std::string> words = {"serve"};
    for (const auto& [name, text] : options) {
      words.insert(words.end(), {name, text});
    }
    return Coord(words);
  };
  for (const char* option : {"--listen", "--http", "--probes"}) {
    const test::Finished run = serve(option, "0.0.0.0:0");
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, AllOf(HasSubstr(option), HasSubstr("--insecure")));
  }
  const test::Finished half = serve("--ca", "/ca.crt");
  EXPECT_EQ(half.status, 2);
  EXPECT_THAT(half.err, HasSubstr("--key are accepted together"));
}

TEST_F(ConfigCliTest, ReadsTheDatabaseFromASecretFile) {
  const std::string file = folder_ / "database";
  const std::string url = "postgresql://u:hidden@127.0.0.1:1/d\n";
  const auto serve = [&] {
    return Coord({"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                  "--database-file", file});
  };
  UCUDNN_CHECK(ReplaceFile(file, url, 0644).has_value());
  const test::Finished refused = serve();
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("its mode is 0644"));
  UCUDNN_CHECK(ReplaceFile(file, url, 0600).has_value());
  const test::Finished read = serve();
  EXPECT_EQ(read.status, 1) << read.err;  // nobody listens there
  EXPECT_EQ((read.out + read.err).find("hidden"), std::string::npos);
}

TEST_F(ConfigCliTest, ReadsTheFileAgainOnHangup) {
  const std::string ready = folder_ / "ready.json";
  const std::string settings =
      "listen = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n"
      "database = \"sqlite::memory:\"\nready-file = \"" +
      ready + "\"\n";
  const std::string file = Config(settings);
  test::Process coord(
      {test::ProgramPath("ucudnn-coord"), "serve", "--config", file},
      folder_ / "log");
  ASSERT_TRUE(test::WaitUntil(
      [&] { return !test::FileText(ready).empty() || !coord.running(); }));
  const auto logs = [&](const std::string& event) {
    coord.Signal(SIGHUP);
    return test::WaitUntil([&] {
      return test::FileText(folder_ / "log").find(event) != std::string::npos;
    });
  };
  Config(settings + "lease-ms = 1\n");
  EXPECT_TRUE(logs("event=reload_failed"));
  EXPECT_THAT(test::FileText(folder_ / "log"),
              HasSubstr(file + ":5: lease-ms = '1'"));
  Config(settings + "lease-ms = 60_000\n");
  EXPECT_TRUE(logs("event=reloaded"));
  EXPECT_EQ(coord.Stop(), 0);
}

}  // namespace
}  // namespace ucudnn
