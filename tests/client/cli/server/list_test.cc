// What every list of `ucudnn` can do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "base/plan/prediction.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kH200[] = "NVIDIA H200/132u/139GiB/cudnn-9.19";
constexpr char kSlice[] = "NVIDIA H200/64u/139GiB/cudnn-9.19";
constexpr char kCpu[] = "Some CPU Family/2u/23GiB/onednn-2.6";

class ListCliTest : public ::testing::Test {
 protected:
  ListCliTest() {
    coordinator_.list_devices =
        [this](
            const v1::ListRequest& request) -> Result<v1::ListDevicesResponse> {
      v1::ListDevicesResponse page;
      if (!request.after().empty()) return page;
      for (const char* kind : {kSlice, kCpu, kH200}) {
        if (!request.kind().empty() && request.kind() != kind) continue;
        v1::Device& device = *page.add_devices();
        device.set_id(std::string("device-") + kind[5]);
        device.set_kind(kind);
        device.mutable_kind_details()->set_units(kind == kH200    ? 132
                                                 : kind == kSlice ? 64
                                                                  : 2);
        device.set_state(state_);
        if (kind == kH200) {
          device.mutable_measuring()->set_layer("resnet50 conv2 forward");
          device.mutable_measuring()->set_batch(32);
        }
      }
      return page;
    };
    coordinator_.list_profiles = [](const v1::ListRequest&) {
      return Result<v1::ListProfilesResponse>();
    };
  }

  std::string Devices(const std::vector<std::string>& arguments,
                      int status = 0) {
    std::vector<std::string> command = {test::ProgramPath("ucudnn"), "devices",
                                        "--coordinator",
                                        coordinator_.address()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const test::Finished listed = test::Run(command);
    EXPECT_EQ(listed.status, status) << listed.out << listed.err;
    return status == 0 ? listed.out : listed.err;
  }

  std::atomic<const char*> state_ = "idle";
  ScriptedCoordinator coordinator_;
};

constexpr char kUnits[] = "jsonpath={[*].kind_details.units}";

TEST_F(ListCliTest, PicksValuesByJsonPath) {
  EXPECT_EQ(Devices({"-o", kUnits}), "64\n2\n132\n");
  EXPECT_EQ(Devices({"-o", "jsonpath=$[-1]['state']"}), "idle\n");
  EXPECT_EQ(Devices({"-o", "jsonpath={[0].nothing}"}), "");
  EXPECT_THAT(Devices({"-o", "jsonpath={[x]}"}, 2), HasSubstr("[x] is given"));
  EXPECT_THAT(Devices({"-o", "tables"}, 2), HasSubstr("wide, json, yaml"));
}

TEST_F(ListCliTest, SaysWhatPredictionsOfPlansCover) {
  const auto plan = [](bool memory) {
    v1::Plan made;
    made.set_predicted_ns(20'000'000);
    made.set_whole_steps(memory);
    if (memory) made.mutable_request()->mutable_memory()->set_budget_bytes(1);
    return made;
  };
  coordinator_.list_plans =
      [&](const v1::ListRequest& request) -> Result<v1::ListPlansResponse> {
    v1::ListPlansResponse page;
    if (!request.after().empty()) return page;
    *page.add_plans() = plan(false);
    *page.add_plans() = plan(true);
    return page;
  };
  coordinator_.get_plan = [&](const std::string& id) -> Result<v1::Plan> {
    return plan(id == "2");
  };
  const auto run = [&](std::vector<std::string> command) {
    command.insert(command.begin(), test::ProgramPath("ucudnn"));
    command.insert(command.end(), {"--coordinator", coordinator_.address()});
    return test::Run(command).out;
  };
  const std::string listed = run({"plans"});
  EXPECT_THAT(listed, HasSubstr(kPredictedHeading));
  EXPECT_THAT(listed, HasSubstr("20.0 ms (whole step)"));
  EXPECT_THAT(listed, HasSubstr("20.0 ms  "));
  EXPECT_THAT(run({"show", "plan", "1"}), HasSubstr(kPredictedHeading));
  EXPECT_THAT(run({"show", "plan", "2"}), Not(HasSubstr(kPredictedHeading)));
}

TEST_F(ListCliTest, SaysWhichMemoryPlansMayUse) {
  std::vector<std::int64_t> budgets;
  coordinator_.get_plan = [&](const std::string&) -> Result<v1::Plan> {
    v1::Plan plan;
    v1::MemoryPlanRequest& memory = *plan.mutable_request()->mutable_memory();
    for (const std::int64_t bytes : budgets)
      memory.add_rank_budget_bytes(bytes);
    return plan;
  };
  const auto heading = [&](std::vector<std::int64_t> of_ranks) {
    budgets = std::move(of_ranks);
    const std::string shown =
        test::Run({test::ProgramPath("ucudnn"), "show", "plan", "1",
                   "--coordinator", coordinator_.address()})
            .out;
    return shown.substr(0, shown.find('\n'));
  };
  constexpr std::int64_t kMiB = 1 << 20;
  EXPECT_THAT(heading({}), HasSubstr(", all memory, "));
  EXPECT_THAT(heading({0, 0}), HasSubstr(", all memory, "));
  EXPECT_THAT(heading({kMiB, kMiB}), HasSubstr(", 1.00 MiB of memory, "));
  EXPECT_THAT(heading({kMiB, 0}), HasSubstr(", 1.00 MiB of memory or all, "));
  EXPECT_THAT(heading({2 * kMiB, kMiB}),
              HasSubstr(", 1.00 MiB to 2.00 MiB of memory, "));
}

TEST_F(ListCliTest, SortsByColumnsAndMembers) {
  EXPECT_EQ(Devices({"-o", kUnits, "--sort-by", "kind_details.units"}),
            "2\n64\n132\n");
  EXPECT_EQ(Devices({"-o", kUnits, "--sort-by=-kind_details.units"}),
            "132\n64\n2\n");
  EXPECT_EQ(Devices({"-o", kUnits, "--sort-by", "KIND"}), "132\n64\n2\n");
  EXPECT_THAT(Devices({"--sort-by", "colour"}, 2),
              HasSubstr("there is no 'colour'; device, node, kind, state"));
}

TEST_F(ListCliTest, FiltersByColumnsAndMembers) {
  EXPECT_EQ(Devices({"-o", kUnits, "--filter", "kind_details.units=64"}),
            "64\n");
  EXPECT_EQ(Devices({"-o", kUnits, "--filter", "kind=h200"}), "64\n132\n");
  EXPECT_EQ(Devices({"-o", kUnits, "--filter", "kind=h200", "--filter",
                     "kind_details.units=132"}),
            "132\n");
  EXPECT_EQ(Devices({"-o", "json", "--filter", "state=lost"}), "[]\n");
  EXPECT_THAT(Devices({"--filter", "colour=red"}, 2), HasSubstr("'colour'"));
  EXPECT_THAT(Devices({"--filter", "state"}, 2), HasSubstr("key=value"));
}

TEST_F(ListCliTest, TakesKindsByShortNameAndNumber) {
  EXPECT_EQ(Devices({"-o", kUnits, "--kind", "h200/64u"}), "64\n");
  EXPECT_EQ(Devices({"-o", kUnits, "--kind", "1"}), "132\n");
  EXPECT_EQ(Devices({"-o", kUnits, "--kind", "3"}), "2\n");
  EXPECT_EQ(Devices({"-o", kUnits, "--kind", "CPU/onednn-2.6"}), "2\n");
  EXPECT_THAT(Devices({"--kind", "h200"}, 2), HasSubstr("several kinds match"));
  EXPECT_THAT(Devices({"--kind", "h300"}, 2),
              HasSubstr("no device kind 'h300'; known are NVIDIA H200/132u"));
}

TEST_F(ListCliTest, PrintsTablesForPeopleAndPrograms) {
  const std::string table = Devices({});
  EXPECT_THAT(table, HasSubstr("DEVICE"));
  EXPECT_THAT(table, HasSubstr("h200/132u"));
  EXPECT_THAT(table, HasSubstr("measuring resnet50 conv2 forward, batch 32"));
  EXPECT_THAT(table, Not(HasSubstr(kH200)));
  EXPECT_THAT(Devices({"-o", "wide"}), HasSubstr(kH200));
  EXPECT_THAT(Devices({"--no-headers"}), Not(HasSubstr("DEVICE")));
  EXPECT_EQ(Devices({"-o", "name", "--kind", kCpu}), "device-C\n");
  EXPECT_THAT(Devices({"-o", "yaml"}), HasSubstr("comparison: ~"));
  EXPECT_THAT(Devices({"-o", "jsonpath={[0].id} {[1].state}"}, 2),
              HasSubstr("'id} {' is no name; one path such as {[*].id}"));
}

TEST_F(ListCliTest, WatchesUntilCtrlC) {
  const test::TemporaryFolder folder;
  const std::string log = folder / "log";
  test::Process watch(
      {test::ProgramPath("ucudnn"), "devices", "-w", "-o",
       "jsonpath={[0].state}", "--coordinator", coordinator_.address()},
      log);
  ASSERT_TRUE(test::WaitUntil([&] { return test::FileText(log) == "idle\n"; }));
  state_ = "busy";
  EXPECT_TRUE(
      test::WaitUntil([&] { return test::FileText(log) == "idle\n\nbusy\n"; }));
  watch.Signal(SIGINT);
  EXPECT_EQ(watch.Wait(), 128 + SIGINT) << test::FileText(log);
}

TEST_F(ListCliTest, SaysThatNothingIsListed) {
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), test::ProgramPath("ucudnn"));
    words.insert(words.end(), {"--coordinator", coordinator_.address()});
    return test::Run(words);
  };
  const std::vector<std::string> lost = {"devices", "--state", "lost"};
  const test::Finished none = run(lost);
  EXPECT_EQ(none.status, 0);
  EXPECT_THAT(none.out, HasSubstr("DEVICE"));
  EXPECT_EQ(none.err, "none found\n");
  EXPECT_EQ(run({"devices", "--state", "lost", "-o", "json"}).err, "");
}

}  // namespace
}  // namespace ucudnn
