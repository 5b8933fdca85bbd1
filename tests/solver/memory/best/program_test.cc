#include "solver/memory/best/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/solver/memory/small_graphs.h"

namespace ucudnn {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

std::size_t BlockNamed(const TrainingGraph& graph, const std::string& name) {
  const auto found = std::find_if(
      graph.blocks.begin(), graph.blocks.end(),
      [&](const MemoryBlock& block) { return block.name == name; });
  EXPECT_NE(found, graph.blocks.end()) << name;
  return static_cast<std::size_t>(found - graph.blocks.begin());
}

std::vector<std::string> TaskNames(const RoundProgram& program) {
  std::vector<std::string> names;
  for (const std::size_t task : program.tasks) {
    names.push_back(program.round->graph->tasks[task].name);
  }
  return names;
}

TEST(RoundProgramTest, CountsWhatIsLiveAtEachTask) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(4));
  const Rounds rounds = ModelRounds(graph, BatchSize(4)).value();
  const RoundModel& round = rounds.models.front();
  const RoundProgram program = MakeProgram(round, {}).value();
  EXPECT_EQ(program.tasks, round.tasks);
  for (std::size_t place = 0; place < program.tasks.size(); ++place) {
    std::int64_t live = 0;
    for (std::size_t block = 0; block < round.size.size(); ++block) {
      const auto& uses = round.uses[block];
      if (round.persistent[block] || uses.empty()) continue;
      const std::size_t first = round.IsInput(block) ? 0 : uses.front();
      if (first <= place && place <= uses.back()) live += program.size[block];
    }
    EXPECT_EQ(program.live[place], live) << place;
  }
}

TEST(RoundProgramTest, IsTheSameWhateverItsMakerMadeBefore) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallResidual(4));
  const Rounds rounds = ModelRounds(graph, BatchSize(4)).value();
  const RoundModel& round = rounds.models.front();
  ProgramMaker maker(round);
  const std::vector<bool> can = RecomputableBlocks(round);
  for (std::size_t block = 0; block < can.size(); ++block) {
    ProgramChoices choices;
    choices.recomputed.resize(can.size());
    choices.recomputed[block] = can[block];
    const RoundProgram again = maker.Make(choices).value();
    const RoundProgram once = MakeProgram(round, choices).value();
    EXPECT_EQ(again.tasks, once.tasks);
    EXPECT_EQ(again.live, once.live);
    EXPECT_EQ(again.dies, once.dies);
    EXPECT_EQ(again.dies_until, once.dies_until);
    EXPECT_EQ(again.gaps.size(), once.gaps.size());
  }
}

TEST(RoundProgramTest, FindsTheGapBetweenForwardAndBackward) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(4));
  const Rounds rounds = ModelRounds(graph, BatchSize(4)).value();
  const RoundProgram program = MakeProgram(rounds.models.front(), {}).value();
  const std::size_t block = BlockNamed(graph, "conv1.Y");
  std::vector<std::pair<std::string, std::string>> around;
  const std::vector<std::string> names = TaskNames(program);
  for (const BlockGap& gap : program.gaps) {
    if (gap.block != block) continue;
    around.emplace_back(names[static_cast<std::size_t>(gap.after)],
                        names[static_cast<std::size_t>(gap.until)]);
  }
  EXPECT_THAT(around, Contains(std::pair<std::string, std::string>(
                          "conv2.forward", "conv2.backward_filter")));
}

TEST(RoundProgramTest, RepeatsWhatAnotherIsComputedFromInsteadOfKeepingIt) {
  TrainingGraph graph = test::OnSmallDevice(test::SmallChain(4));
  for (Task& task : graph.tasks) {
    if (task.kind == TaskKind::kForward) task.recomputable = true;
  }
  const Rounds rounds = ModelRounds(graph, BatchSize(4)).value();
  ProgramChoices choices;
  choices.recomputed.resize(graph.blocks.size());
  choices.repeated.resize(graph.blocks.size());
  const std::size_t source = BlockNamed(graph, "conv1.Y");
  choices.recomputed[source] = true;
  choices.recomputed[BlockNamed(graph, "conv2.Y")] = true;
  for (const bool repeated : {false, true}) {
    choices.repeated[source] = repeated;
    const RoundProgram program =
        MakeProgram(rounds.models.front(), choices).value();
    const std::vector<std::string> names = TaskNames(program);
    EXPECT_EQ(std::count(names.begin(), names.end(), "conv1.forward"),
              repeated ? 3 : 2);
    EXPECT_EQ(std::count(names.begin(), names.end(), "conv2.forward"), 2);
    // It is kept from the one to the other, or not.
    const auto other = std::find(std::find(names.begin(), names.end(), "loss"),
                                 names.end(), "conv2.forward");
    const int place = static_cast<int>(other - names.begin());
    EXPECT_EQ(std::count_if(program.gaps.begin(), program.gaps.end(),
                            [&](const BlockGap& gap) {
                              return gap.block == source && gap.after == place;
                            }),
              repeated ? 0 : 1);
  }
}

TEST(RoundProgramTest, ComputesAgainJustBeforeTheBackwardPassNeedsIt) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallResidual(4));
  const Rounds rounds = ModelRounds(graph, BatchSize(4)).value();
  const RoundModel& round = rounds.models.front();
  ProgramChoices choices;
  choices.recomputed.resize(graph.blocks.size());
  const std::size_t block = BlockNamed(graph, "a1.bn.Y");
  ASSERT_TRUE(RecomputableBlocks(round)[block]);
  choices.recomputed[block] = true;
  const RoundProgram program = MakeProgram(round, choices).value();
  const std::vector<std::string> names = TaskNames(program);
  EXPECT_EQ(std::count(names.begin(), names.end(), "a1.bn.forward"), 2);
  EXPECT_EQ(std::count(names.begin(), names.end(), "a1.forward"), 1);
  const auto first = std::find(names.begin(), names.end(), "a1.bn.forward");
  const auto second = std::find(first + 1, names.end(), "a1.bn.forward");
  EXPECT_GT(second, std::find(names.begin(), names.end(), "loss"));
  // Between the two it is not on the device.
  for (const BlockGap& gap : program.gaps) {
    if (gap.block != block) continue;
    EXPECT_FALSE(gap.after < second - names.begin() &&
                 gap.until >= second - names.begin());
  }
}

double Ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

TEST(RoundProgramTest, KeepsNoReserveWhereMostHasToBeAway) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(4));
  const Rounds rounds = ModelRounds(graph, BatchSize(4)).value();
  const RoundProgram plain = MakeProgram(rounds.models.front(), {}).value();
  const auto peak = static_cast<std::size_t>(
      std::max_element(plain.live.begin(), plain.live.end()) -
      plain.live.begin());
  const std::int64_t most = plain.resident + plain.live[peak];
  const std::int64_t capacity = most * 3 / 4;
  RoundProgram program = plain;
  KeepReserve(0.5, capacity, &program);
  int whole = 0;
  for (std::size_t place = 0; place < plain.live.size(); ++place) {
    const std::int64_t reserve = program.live[place] - plain.live[place];
    const std::int64_t away = std::max<std::int64_t>(
        0, plain.resident + plain.live[place] - capacity);
    EXPECT_NEAR(2 * Ratio(reserve, capacity), 1 - Ratio(away, most - capacity),
                1e-4)
        << place;
    whole += away == 0 ? 1 : 0;
  }
  EXPECT_EQ(program.live[peak], plain.live[peak]);
  EXPECT_GT(whole, 0);
}

TEST(RoundProgramTest, KeepsNoReserveIfAllFits) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(4));
  const Rounds rounds = ModelRounds(graph, BatchSize(4)).value();
  const RoundProgram plain = MakeProgram(rounds.models.front(), {}).value();
  RoundProgram program = plain;
  KeepReserve(0.5, test::PeakOf(graph).count(), &program);
  EXPECT_EQ(program.live, plain.live);
}

TEST(RoundProgramTest, WeightsOnTheHostAreAwayAtBothEnds) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(4));
  const Rounds rounds = ModelRounds(graph, BatchSize(4)).value();
  const RoundModel& round = rounds.models.front();
  ProgramChoices choices;
  choices.hosted.resize(graph.blocks.size());
  const std::size_t block = BlockNamed(graph, "conv2.W");
  choices.hosted[block] = true;
  const RoundProgram program = MakeProgram(round, choices).value();
  const RoundProgram all = MakeProgram(round, {}).value();
  EXPECT_EQ(all.resident - program.resident, program.size[block]);
  std::vector<std::pair<int, int>> forced;
  for (const BlockGap& gap : program.gaps) {
    if (gap.forced)
      forced.emplace_back(gap.after < 0, gap.until == program.end());
  }
  EXPECT_THAT(forced, ElementsAre(std::pair(1, 0), std::pair(0, 1)));
}

}  // namespace
}  // namespace ucudnn
