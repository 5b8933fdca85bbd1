// Daemons are killed at random moments under load, and a program checks that
// nothing acknowledged was lost, doubled or went back (check.h):
//
//   UCUDNN_TEST_SHAPE=two UCUDNN_HISTORY_KILLS=1000 UCUDNN_HISTORY_SEED=7
//   UCUDNN_HISTORY_FILE=history.jsonl build/ci/.../history_tests
//
// By default 50 kills, a random seed, and a file that is deleted. long.sh runs
// 1,000.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>

#include "tests/integration/cluster.h"
#include "tests/integration/history/load.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

constexpr char kMadeUpKind[] = "MADE-UP/1u/1GiB/made-up-1.0";

std::string Variable(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

class HistoryTest : public ::testing::Test {
 protected:
  enum Victim { kCoordinator, kAgent, kPostgres };

  HistoryTest() {
    std::printf("UCUDNN_HISTORY_SEED=%u UCUDNN_HISTORY_KILLS=%d\n", seed_,
                kills_);
    cluster_.StartCoordinators();
    std::ofstream(cluster_.folder() / "tiny.csv") << kHistoryCsv;
    const Finished put = cluster_.Ucudnn(
        {"networks", "put", kHistoryNetwork, cluster_.folder() / "tiny.csv"});
    EXPECT_EQ(put.status, 0) << put.err;
    cluster_.StartAgent();
  }

  // Kills one of them, or several.
  void KillSome() {
    do {
      const auto victim =
          static_cast<Victim>(Random(Cluster::postgres() == nullptr ? 2 : 3));
      Kill(victim);
      ++killed_[victim];
    } while (Random(4) == 0);
  }
  void Kill(Victim victim) {
    switch (victim) {
      case kCoordinator:
        cluster_.coordinator(Random(cluster_.coordinators())).Kill();
        break;
      case kAgent:
        cluster_.agent().Kill();
        break;
      case kPostgres:
        if (!postgres_is_dead_) {
          ASSERT_TRUE(Cluster::postgres()->Kill());
        }
        postgres_is_dead_ = true;
        break;
    }
  }
  void RestartAll() {
    if (postgres_is_dead_) {
      const Status served = Cluster::postgres()->Serve();
      ASSERT_TRUE(served) << served.error().message;
      postgres_is_dead_ = false;
    }
    cluster_.StartCoordinators();
    if (!cluster_.agent().running()) cluster_.SpawnAgent();
  }
  int Killed() const {
    return std::accumulate(killed_.begin(), killed_.end(), 0);
  }
  std::size_t Random(std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_);
  }

  const unsigned seed_ = static_cast<unsigned>(std::stoul(
      Variable("UCUDNN_HISTORY_SEED", std::to_string(std::random_device()()))));
  const int kills_ = std::stoi(Variable("UCUDNN_HISTORY_KILLS", "50"));
  std::mt19937 random_{seed_};
  std::array<int, 3> killed_ = {};  // by Victim
  bool postgres_is_dead_ = false;
  Cluster cluster_;
};

TEST_F(HistoryTest, NothingAcknowledgedIsLostDoubledOrGoesBack) {
  const std::string file =
      Variable("UCUDNN_HISTORY_FILE", cluster_.folder() / "history.jsonl");
  History history(file);
  const Site site = {
      .coordinators = cluster_.addresses(),
      .access =
          [](Role role, const std::string& name, const std::string& key) {
            return Access::Open(Cluster::CredentialsOf(role, name), {}, key)
                .value();
          },
      .history = history,
      .made_up_kind = kMadeUpKind,
      .kinds = {kMadeUpKind, cluster_.UcudnnJson({"devices"})[0]["kind"]}};
  {
    const Load load(site, seed_);
    const auto answered = [&] {
      const auto of_each = load.Answered();
      return std::accumulate(of_each.begin(), of_each.end(), std::int64_t{0});
    };
    while (Killed() < kills_) {
      // A moment that comes soon, or only once the service works again.
      const auto enough =
          answered() + static_cast<std::int64_t>(Random(2) * Random(100));
      ASSERT_TRUE(WaitUntil([&] { return answered() >= enough; }))
          << "no call is answered after " << Killed() << " kills\n"
          << cluster_.Log();
      KillSome();
      RestartAll();
    }
    // Every client goes on.
    const auto before = load.Answered();
    EXPECT_TRUE(WaitUntil([&] {
      return std::ranges::equal(load.Answered(), before,
                                std::ranges::greater());
    })) << cluster_.Log();
  }
  Observer(site, seed_).Turn();
  const Finished verdict = test::Run({ProgramPath("history_check"), file});
  std::printf("killed: %d coordinators, %d agents, %d PostgreSQLs\n%s",
              killed_[kCoordinator], killed_[kAgent], killed_[kPostgres],
              verdict.out.c_str());
  EXPECT_EQ(verdict.status, 0) << verdict.err << cluster_.Log();
}

}  // namespace
}  // namespace ucudnn::test
