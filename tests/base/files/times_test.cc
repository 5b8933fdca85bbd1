#include "base/files/times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using std::chrono_literals::operator""ns;

Error TimesError(std::string_view text, std::string_view model = "") {
  const auto times = ParseTimesCsv(text, model, "t.csv");
  return times ? Error{Code::kOk, "no error"} : times.error();
}

TEST(TimesTest, ReadsMicrosecondsInOrderOfBatch) {
  EXPECT_THAT(ParseTimesCsv("gpu,batch,time_us\n"
                            "v100,64,10.5\nk80,32,99\nv100,32,12\n",
                            "", "t.csv")
                  .value(),
              ElementsAre(GpuTimes{"v100",
                                   {{BatchSize(32), 12'000ns},
                                    {BatchSize(64), 10'500ns}}},
                          GpuTimes{"k80", {{BatchSize(32), 99'000ns}}}));
}

TEST(TimesTest, ReadsMilliseconds) {
  EXPECT_EQ(
      ParseTimesCsv("gpu,batch,ms_per_iteration\na,1,203.7894561\n", "", "t")
          .value()[0]
          .times[0]
          .time,
      203'789'456ns);
  EXPECT_EQ(
      ParseTimesCsv("gpu,batch,ms_per_iteration,time_us\na,1,7,5\n", "", "t")
          .value()[0]
          .times[0]
          .time,
      5000ns);
}

TEST(TimesTest, TakesTheMedianOfRepeats) {
  EXPECT_THAT(ParseTimesCsv("source,gpu,batch,time_us\n"
                            "x,a,1,5\ny,a,1,900\nz,a,1,7\n",
                            "", "t.csv")
                  .value(),
              ElementsAre(GpuTimes{"a", {{BatchSize(1), 7'000ns}}}));
}

TEST(TimesTest, LooksOnlyAtTheRowsOfTheModel) {
  const std::string_view text =
      "model,gpu,batch,time_us\nA,k,1,5\nB,k,,oops\nA,k,2,6\n";
  EXPECT_THAT(ParseTimesCsv(text, "A", "t.csv").value(),
              ElementsAre(GpuTimes{
                  "k", {{BatchSize(1), 5'000ns}, {BatchSize(2), 6'000ns}}}));
  EXPECT_THAT(TimesError(text, "B").message,
              StartsWith("t.csv:3: column 'batch': ''"));
}

TEST(TimesTest, ListsTheModelsIfOneMustBeChosen) {
  const std::string_view text = "model,gpu,batch,time_us\nB,k,1,5\nA,k,1,6\n";
  EXPECT_EQ(TimesError(text).code, Code::kInvalidArgument);
  EXPECT_THAT(TimesError(text).message,
              HasSubstr("several models; choose one of A, B"));
  EXPECT_EQ(TimesError(text, "C").code, Code::kNotFound);
  EXPECT_THAT(TimesError(text, "C").message,
              HasSubstr("no times of model 'C', only of A, B"));
  EXPECT_THAT(TimesError("gpu,batch,time_us\nk,1,5\n", "A").message,
              HasSubstr("there is no column 'model'"));
  EXPECT_TRUE(ParseTimesCsv("model,gpu,batch,time_us\nB,k,1,5\n", "", "t"));
}

TEST(TimesTest, NamesPlaceValueAndWhatIsAccepted) {
  for (const auto& [row, column, why] :
       {std::tuple{",1,5", "gpu", "not a name"},
        std::tuple{"a,0,5", "batch", "from 1 to 16777216"},
        std::tuple{"a,x,5", "batch", "'x'"},
        std::tuple{"a,1,nan", "time_us", "'nan'"},
        std::tuple{"a,1,-5", "time_us", "-5"},
        std::tuple{"a,1,1e99", "time_us", "146 years"}}) {
    const Error error =
        TimesError(std::string("gpu,batch,time_us\nb,1,1\n") + row);
    EXPECT_THAT(error.message,
                AllOf(StartsWith(fmt::format("t.csv:3: column '{}'", column)),
                      HasSubstr(why)));
  }
  for (const char* time : {"nan", "-5", "1e99", "", "x"}) {
    EXPECT_THAT(TimesError(std::string("gpu,batch,ms_per_iteration\na,1,") +
                           time + "\n")
                    .message,
                StartsWith("t.csv:2: column 'ms_per_iteration'"));
  }
}

TEST(TimesTest, RefusesTablesWithoutTimes) {
  EXPECT_THAT(TimesError("").message, HasSubstr("it is empty"));
  EXPECT_THAT(TimesError("gpu,batch,time_us\n").message, HasSubstr("no row"));
  EXPECT_THAT(TimesError("model,gpu,batch,time_us\n", "A").message,
              HasSubstr("no row"));
  EXPECT_THAT(TimesError("gpu,batch\n").message,
              HasSubstr("'time_us' or 'ms_per_iteration'"));
  EXPECT_THAT(TimesError("batch,time_us\n").message, HasSubstr("column 'gpu'"));
  EXPECT_THAT(TimesError("gpu,time_us\n").message, HasSubstr("column 'batch'"));
  EXPECT_THAT(TimesError("gpu,batch,batch,time_us\n").message,
              HasSubstr("'batch' twice"));
  EXPECT_THAT(TimesError("gpu,batch,time_us\na,1\n").message,
              HasSubstr("has 2 fields"));
}

TEST(TimesTest, ReadsBackWhatItWrites) {
  const std::vector<GpuTimes> gpus = {
      {"a,b", {{BatchSize(1), 1ns}, {BatchSize(7), 123'456'789ns}}},
      {"c", {{BatchSize(2), 2000ns}}}};
  EXPECT_EQ(ParseTimesCsv(ToCsv(gpus), "", "t").value(), gpus);
}

TEST(TimesTest, ReadsPublishedTimes) {
  const std::string file = test::DataPath("gavel_resnet.csv");
  const auto one = ReadTimesFile(file, "ResNet-50");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->size(), 3u);
  EXPECT_THAT(ReadTimesFile(file, "").error().message,
              HasSubstr("ResNet-18, ResNet-50"));
}

}  // namespace
}  // namespace ucudnn
