// What `ucudnn` says to who mistypes, and its help.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

test::Finished Ucudnn(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), test::ProgramPath("ucudnn"));
  return test::Run(arguments);
}

TEST(HelpCliTest, GuessesWhatWasMeant) {
  const auto said = [](const std::vector<std::string>& arguments) {
    const test::Finished run = Ucudnn(arguments);
    EXPECT_EQ(run.status, 2);
    return run.err;
  };
  EXPECT_THAT(said({"plns"}),
              HasSubstr("there is no command 'plns'; did you mean plans?"));
  EXPECT_THAT(said({"networks", "putt", "a", "b"}),
              HasSubstr("'putt'; did you mean put?"));
  EXPECT_THAT(said({"plan", "--netwrok", "a"}),
              HasSubstr("no option --netwrok; did you mean --network?"));
  EXPECT_THAT(said({"plan", "--network", "a", "--workspacelimit=1MiB"}),
              HasSubstr("did you mean --workspace-limit?"));
  EXPECT_THAT(said({"--coordinator", "a:1", "devises"}),
              HasSubstr("did you mean devices?"));
  EXPECT_THAT(said({"xyzzy"}), HasSubstr("there is no command 'xyzzy'\n"));
  EXPECT_THAT(said({"plan", "--dry-run", "--steps", "3"}),
              AllOf(HasSubstr("there is no option --steps"),
                    HasSubstr("See `ucudnn plan --help`.")));
  EXPECT_THAT(said({"show", "plan", "1", "-o", "jsonpath={.id}"}),
              HasSubstr("'jsonpath={.id}' is given; table, json or yaml"));
  EXPECT_THAT(said({}), HasSubstr("Planning commands:"));
}

TEST(HelpCliTest, SaysWhatIsMissingOrAcceptedInPlainWords) {
  const auto said = [](const std::vector<std::string>& arguments) {
    return Ucudnn(arguments).err;
  };
  EXPECT_THAT(said({"show", "job"}), HasSubstr("ucudnn: JOB is required\n"));
  EXPECT_THAT(said({"jobs", "rm"}), HasSubstr("ucudnn: JOB is required\n"));
  EXPECT_THAT(said({"cancel"}),
              HasSubstr("one of CAMPAIGN,--task,--kind is required\n"));
  EXPECT_THAT(said({"cancel", "x"}),
              HasSubstr("CAMPAIGN: 'x' is given; 1 to "));
  EXPECT_THAT(said({"completion", "tcsh"}),
              HasSubstr("'tcsh' is given; one of bash,zsh,fish is accepted"));
  const std::vector<std::string> wr = {
      "solve",          "wr",         "--profile",         "nofile",
      "--batch",        "2",          "--workspace-limit", "1mib",
      "--batch-policy", "poweroftwo", "--precision"};
  const auto with = [&](const std::string& precision) {
    std::vector<std::string> all = wr;
    all.push_back(precision);
    return all;
  };
  EXPECT_THAT(said(with("fp32")), HasSubstr("nofile"));
  EXPECT_THAT(said(with("fp31")),
              HasSubstr("'fp31' is given; one of FP32,TF32,"));
  const test::Finished agent =
      test::Run({test::ProgramPath("ucudnn-agent"), "--help"});
  EXPECT_THAT(agent.out, HasSubstr("--no-branches "));
}

TEST(HelpCliTest, ShowsTheHelpOfEachCommand) {
  const test::Finished all = Ucudnn({"help"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("cancel"));
  EXPECT_THAT(all.out, HasSubstr("HOST:PORT[,...]=127.0.0.1:7460"));
  const test::Finished put = Ucudnn({"help", "networks", "put"});
  EXPECT_EQ(put.status, 0) << put.err;
  EXPECT_THAT(put.out, HasSubstr("ONNX or CSV file"));
  EXPECT_THAT(Ucudnn({"plan", "--help"}).out, HasSubstr("--ranks N=1"));
  const test::Finished wrong = Ucudnn({"help", "plna"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean plan?"));
}

TEST(HelpCliTest, NamesAWrongAddressSoon) {
  const auto start = std::chrono::steady_clock::now();
  const test::Finished run =
      Ucudnn({"devices", "--coordinator", "127.0.0.1:1"});
  EXPECT_EQ(run.status, 4);
  EXPECT_THAT(run.err, HasSubstr("no coordinator answers at 127.0.0.1:1: "
                                 "Connection refused"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace ucudnn
