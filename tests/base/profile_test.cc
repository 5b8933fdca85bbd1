#include "base/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/files/file.h"
#include "base/other_tasks.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using std::chrono_literals::operator""ns;

constexpr char kProfileHeader[] =
    "device,network,layer,op,precision,layout,batch,algorithm,math,"
    "workspace_bytes,time_us\n";

std::string Measured(const std::string& name) {
  return test::DataPath("h200/") + name;
}

Profile Parsed(const std::string& rows) {
  auto profile = ParseProfileCsv(kProfileHeader + rows, "p.csv");
  EXPECT_TRUE(profile) << profile.error().message;
  return profile.value_or(Profile());
}

std::string ProfileError(const std::string& text) {
  const auto profile = ParseProfileCsv(text, "p.csv");
  if (profile) return "no error";
  EXPECT_EQ(profile.error().code, Code::kInvalidArgument);
  return profile.error().message;
}

TEST(ProfileTest, SortsPointsWithinKernelsInFileOrder) {
  const Profile profile = Parsed(
      "gpu,net,conv2,forward,FP32,NCHW,2,GEMM,FMA,0,20.5\n"
      "gpu,net,conv1,forward,FP32,NCHW,2,GEMM,FMA,0,1\n"
      "gpu,net,conv2,forward,FP32,NCHW,2,FFT,FMA,1024,7\n"
      "gpu,net,conv2,forward,FP32,NCHW,1,GEMM,,64,8\n"
      "gpu,net,conv2,forward,FP32,NCHW,1,GEMM,,0,9\n");
  ASSERT_THAT(profile.kernels, SizeIs(2));
  EXPECT_EQ(profile.kernels[0].id,
            (KernelId{"gpu", "net", "conv2", ConvOp::kForward, Precision::kFp32,
                      Layout::kNchw}));
  EXPECT_EQ(profile.kernels[1].id.layer, "conv1");
  const Algorithm plain{"GEMM", "", Precision::kFp32};
  const Algorithm gemm{"GEMM", "FMA", Precision::kFp32};
  const Algorithm fft{"FFT", "FMA", Precision::kFp32};
  EXPECT_THAT(profile.kernels[0].points,
              ElementsAre(MeasuredPoint{BatchSize(1), plain, 0_B, 9000ns},
                          MeasuredPoint{BatchSize(1), plain, 64_B, 8000ns},
                          MeasuredPoint{BatchSize(2), fft, 1_KiB, 7000ns},
                          MeasuredPoint{BatchSize(2), gemm, 0_B, 20500ns}));
}

TEST(ProfileTest, TakesTheMedianOfRepeats) {
  std::string rows;
  for (const char* time : {"40", "10", "5000", "20", "30"}) {
    rows += fmt::format("g,n,l,forward,FP32,NCHW,1,GEMM,FMA,0,{}\n", time);
  }
  const MeasuredPoint point = Parsed(rows).kernels[0].points[0];
  EXPECT_EQ(point.time, 30'000ns);
  EXPECT_EQ(point.spread, 10'000ns);
  EXPECT_EQ(point.repeats, 5);
}

TEST(ProfileTest, FindsColumnsInAnyOrder) {
  EXPECT_EQ(ParseProfileCsv("note,time_us,workspace_bytes,math,algorithm,batch,"
                            "layout,precision,op,layer,network,device\r\n"
                            "?,1,2,M,A,3,NHWC,BF16,backward_data,l,n,d\r\n",
                            "p.csv")
                .value()
                .kernels[0]
                .id,
            (KernelId{"d", "n", "l", ConvOp::kBackwardData, Precision::kBf16,
                      Layout::kNhwc}));
}

TEST(ProfileTest, NamesPlaceValueAndWhatIsAccepted) {
  const std::string good = "g,n,l,forward,FP32,NCHW,1,GEMM,FMA,0,5\n";
  for (const auto& [row, column, why] :
       {std::tuple{",n,l,forward,FP32,NCHW,1,A,,0,5", "device", "not a name"},
        std::tuple{"g,,l,forward,FP32,NCHW,1,A,,0,5", "network", "not a name"},
        std::tuple{"g,n,,forward,FP32,NCHW,1,A,,0,5", "layer", "not a name"},
        std::tuple{"g,n,l,forwards,FP32,NCHW,1,A,,0,5", "op",
                   "'forwards' is not an operation; one of forward, "},
        std::tuple{"g,n,l,forward,FP31,NCHW,1,A,,0,5", "precision", "'FP31'"},
        std::tuple{"g,n,l,forward,FP32,NCWH,1,A,,0,5", "layout", "'NCWH'"},
        std::tuple{"g,n,l,forward,FP32,NCHW,0,A,,0,5", "batch",
                   "from 1 to 16777216"},
        std::tuple{"g,n,l,forward,FP32,NCHW,1.5,A,,0,5", "batch", "'1.5'"},
        std::tuple{"g,n,l,forward,FP32,NCHW,,A,,0,5", "batch", "''"},
        std::tuple{"g,n,l,forward,FP32,NCHW,16777217,A,,0,5", "batch", "'167"},
        std::tuple{"g,n,l,forward,FP32,NCHW,1,,,0,5", "algorithm",
                   "not a name"},
        std::tuple{"g,n,l,forward,FP32,NCHW,1,A,,-1,5", "workspace_bytes",
                   "'-1' is not a whole number from 0"},
        std::tuple{"g,n,l,forward,FP32,NCHW,1,A,,99999999999999999999,5",
                   "workspace_bytes", "'99999999999999999999'"},
        std::tuple{"g,n,l,forward,FP32,NCHW,1,A,,0,nan", "time_us", "'nan'"},
        std::tuple{"g,n,l,forward,FP32,NCHW,1,A,,0,inf", "time_us", "'inf'"},
        std::tuple{"g,n,l,forward,FP32,NCHW,1,A,,0,-2", "time_us", "-2"},
        std::tuple{"g,n,l,forward,FP32,NCHW,1,A,,0,1e300", "time_us",
                   "longer than 146 years"},
        std::tuple{"g,n,l,forward,FP32,NCHW,1,A,,0,", "time_us", "''"},
        std::tuple{"g,n,l,forward,FP32,NCHW,1,A,,0,5ms", "time_us", "'5ms'"}}) {
    const auto profile = ParseProfileCsv(kProfileHeader + good + row, "p.csv");
    ASSERT_FALSE(profile) << row;
    EXPECT_THAT(profile.error().message,
                AllOf(StartsWith(fmt::format("p.csv:3: column '{}': ", column)),
                      HasSubstr(why)));
  }
}

TEST(ProfileTest, RefusesTablesThatAreNoProfile) {
  EXPECT_THAT(ProfileError(""), HasSubstr("it is empty"));
  EXPECT_THAT(ProfileError(kProfileHeader), HasSubstr("there is no row"));
  const std::string header = kProfileHeader;
  for (const std::string column :
       {"device", "network", "layer", "op", "precision", "layout", "batch",
        "algorithm", "math", "workspace_bytes", "time_us"}) {
    std::string without = header;
    without.replace(without.find(column), column.size(), "x");
    EXPECT_THAT(ProfileError(without),
                HasSubstr("there is no column '" + column + "'"));
    EXPECT_THAT(ProfileError(column + "," + header),
                HasSubstr("column '" + column + "' twice"));
  }
  EXPECT_THAT(ProfileError(header + "a,b\n"), HasSubstr("has 2 fields"));
}

TEST(ProfileTest, ReadsBackWhatItWrites) {
  std::mt19937 random(7);
  const auto pick = [&](auto... values) {
    const std::array all = {std::string(values)...};
    return all[random() % all.size()];
  };
  for (int round = 0; round < 200; ++round) {
    std::string rows;
    for (unsigned i = 0; i <= random() % 40; ++i) {
      rows += fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{}.{:03}\n",
          pick("g", "\"a,b\"", "\"say \"\"x\"\"\""), pick("n", "m"),
          pick("l", "é"), pick("forward", "backward_data", "backward_filter"),
          pick("FP32", "TF32", "TRUE_HALF", "PSEUDO_HALF", "BF16"),
          pick("NCHW", "NHWC"), 1 + random() % 3, pick("A", "B"),
          pick("", "FMA"), random() % 2 * 4096, random() % 100000,
          random() % 1000);
    }
    const Profile first = Parsed(rows);
    const auto second = ParseProfileCsv(ToCsv(first), "again");
    ASSERT_TRUE(second) << second.error().message;
    ASSERT_EQ(second->kernels.size(), first.kernels.size());
    EXPECT_EQ(second->kernels, first.kernels);
  }
}

constexpr char kProblem[] =
    "forward-c1-h4w4-k1-r1s1-pad0x0-str1x1-dil1x1-g1-TF32-NCHW";

// A kernel of which everything is known.
Profile Everything() {
  MeasuredPoint point{
      .batch = BatchSize(4),
      .algorithm = {"jit:avx2, blocked", "FMA", Precision::kFp32},
      .workspace = 1_MiB};
  // Each number another one.
  for (const PointNumber& number : PointNumbers()) {
    number.set(point, 1234 + number.field);
  }
  const PointOrigin origin{.device = "GPU-1",
                           .driver = "580.1, CUDA 13.0",
                           .measured_ms = 1'700'000'000'000,
                           .clocks = {1755, 3201, "power cap"}};
  KernelProfile kernel;
  kernel.id = {"NVIDIA H200/132u/139GiB/cudnn-9.19",
               "measured",
               kProblem,
               ConvOp::kForward,
               Precision::kTf32,
               Layout::kNchw};
  kernel.points = {point, point};
  kernel.points[1].batch = BatchSize(8);
  kernel.problem = ParseConvProblem(kProblem).value();
  kernel.origins = {origin, origin};
  kernel.origins[1].driver = "581";
  kernel.complete[BatchSize(8)] = {1_GiB, "581"};
  return {{kernel}};
}

TEST(ProfileTest, ReadsBackEverythingThatIsKnownOfAPoint) {
  const Profile everything = Everything();
  const auto again = ParseProfileCsv(ToCsv(everything), "again");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->kernels, everything.kernels);
}

TEST(ProfileTest, ReadsBackTasksOtherThanConvolutions) {
  Profile profile = Everything();
  KernelProfile tasks = profile.kernels[0];
  tasks.id.network = std::string(64, 'a');
  tasks.id.layer = ToString(OtherTasks{.network = tasks.id.network});
  tasks.id.precision = Precision::kFp32;
  tasks.problem.reset();
  tasks.points[0].algorithm = {"bn,1.backward", "", Precision::kFp32};
  tasks.points[1].algorithm = {"loss", "", Precision::kFp32};
  profile.others = {tasks};
  const std::string csv = ToCsv(profile);
  EXPECT_THAT(csv, HasSubstr(",\"bn,1\",backward,FP32,NCHW,4,NONE,,"));
  EXPECT_THAT(csv, HasSubstr(",loss,loss,FP32,NCHW,8,NONE,,"));
  const auto again = ParseProfileCsv(csv, "again");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->kernels, profile.kernels);
  EXPECT_EQ(again->others, profile.others);
  // Without their problem they are of a profile made by hand, for others.
  std::string by_hand = csv;
  for (std::size_t at; (at = by_hand.find("tasks-")) != std::string::npos;) {
    by_hand.erase(at, tasks.id.layer.size());
  }
  EXPECT_THAT(ParseProfileCsv(by_hand, "p")->others, SizeIs(0));
  std::string wrong = csv;
  wrong.replace(wrong.find("tasks-a"), 7, "tasks-Z");
  EXPECT_THAT(ProfileError(wrong), HasSubstr("column 'problem'"));
}

TEST(ProfileTest, WritesOnlyColumnsThatSaySomething) {
  const Profile plain = Parsed("g,n,l,forward,FP32,NCHW,1,A,,0,5\n");
  EXPECT_EQ(ToCsv(plain),
            std::string(kProfileHeader) + "g,n,l,forward,FP32,NCHW,1,A,,0,5\n");
  Profile more = plain;
  more.kernels[0].points[0].spread = 250ns;
  EXPECT_THAT(ToCsv(more), StartsWith("device,network,layer,op,precision,"
                                      "layout,batch,algorithm,math,"
                                      "workspace_bytes,time_us,spread_us\n"));
}

TEST(ProfileTest, TakesRowsOfOnePointForRepeatsWhateverElseTheyTell) {
  std::string header = kProfileHeader;
  header.replace(header.size() - 1, 1, ",spread_us,repeats,min_us,driver\n");
  const auto profile =
      ParseProfileCsv(header + "g,n,l,forward,FP32,NCHW,1,A,,0,30,1,5,29,c\n" +
                          "g,n,l,forward,FP32,NCHW,1,A,,0,10,2,,9,a\n" +
                          "g,n,l,forward,FP32,NCHW,1,A,,0,20,3,7,19,b\n",
                      "p.csv");
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_THAT(profile->kernels[0].points, SizeIs(1));
  const MeasuredPoint& point = profile->kernels[0].points[0];
  EXPECT_EQ(point.time, 20'000ns);
  EXPECT_EQ(point.spread, 5'000ns);
  EXPECT_EQ(point.repeats, 13);
  EXPECT_EQ(point.min, 19'000ns);
  EXPECT_EQ(profile->kernels[0].origins[0].driver, "b");
}

TEST(ProfileTest, NamesThePlaceOfWhatIsWrongInAnOptionalColumn) {
  const std::string good = ToCsv(Everything());
  for (const auto& [from, to, column] :
       {std::tuple{",1755,", ",fast,", "sm_clock_mhz"},
        std::tuple{",1.241,", ",-1,", "spread_us"},
        std::tuple{"-TF32-NCHW,1.241", "-TF33-NCHW,1.241", "problem"},
        std::tuple{"-TF32-NCHW,1.241", "-TF32-NHWC,1.241", "problem"}}) {
    std::string csv = good;
    ASSERT_NE(csv.find(from), std::string::npos) << from << "\n" << csv;
    csv.replace(csv.find(from), std::string(from).size(), to);
    EXPECT_THAT(ProfileError(csv),
                StartsWith(fmt::format("p.csv:2: column '{}': ", column)));
  }
}

TEST(ProfileTest, ReadsRealMeasurements) {
  const auto full = ReadProfileFile(Measured("alexnet_b256_pow2.csv"));
  ASSERT_TRUE(full) << full.error().message;
  // 4 precisions, 5 layers, 3 operations.
  EXPECT_EQ(full->kernels.size(), 60u);
  EXPECT_EQ(full->kernels[0].id.device, "NVIDIA H200");
  EXPECT_THAT(full->kernels[0].points,
              ::testing::Contains(
                  MeasuredPoint{BatchSize(1),
                                {"IMPLICIT_GEMM", "FMA", Precision::kFp32},
                                0_B,
                                39104ns}));
  for (const char* slice : {"16", "32", "64"}) {
    const auto part = ReadProfileFile(
        Measured(fmt::format("alexnet_b256_pow2_sm{}.csv", slice)));
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_EQ(part->kernels.size(), 15u);
  }
}

TEST(ProfileTest, ReadsCompressedFiles) {
  const auto all =
      ReadProfileFile(Measured("alexnet_conv2-5_b256_all_fp32.csv.gz"));
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->kernels.size(), 12u);
  for (const KernelProfile& kernel : all->kernels) {
    EXPECT_EQ(kernel.points.back().batch, BatchSize(256));
  }
  EXPECT_EQ(
      ReadProfileFile(Measured("alexnet_conv2-5_b256_all_fp32.csv.gz"), 1_MiB)
          .error()
          .code,
      Code::kResourceExhausted);
  EXPECT_EQ(ReadProfileFile(Measured("none.csv")).error().code,
            Code::kNotFound);
}

class SelectKernelsTest : public ::testing::Test {
 protected:
  const Profile profile_ = Parsed(
      "g,n,l1,forward,TRUE_HALF,NCHW,1,A,TENSOR,0,5\n"
      "g,n,l1,forward,PSEUDO_HALF,NCHW,1,A,TENSOR,0,6\n"
      "g,n,l2,forward,PSEUDO_HALF,NCHW,1,A,TENSOR,0,7\n"
      "g,n,l1,forward,FP32,NCHW,1,A,FMA,0,8\n"
      "g,n,l1,backward_data,FP32,NCHW,1,A,FMA,0,9\n"
      "h,n,l1,forward,FP32,NHWC,1,A,FMA,0,9\n"
      "h,m,l1,forward,FP32,NHWC,1,A,FMA,0,9\n");

  Error ProfileError(const ProfileFilter& filter) {
    const auto selected = SelectKernels(profile_, filter);
    return selected ? Error{Code::kOk, "no error"} : selected.error();
  }
};

TEST_F(SelectKernelsTest, MergesPrecisionsThatTheAskedOneAdmits) {
  const auto half =
      SelectKernels(profile_, {.device = "g", .precision = "TRUE_HALF"});
  ASSERT_TRUE(half) << half.error().message;
  ASSERT_THAT(half->kernels, SizeIs(2));
  for (const KernelProfile& kernel : half->kernels) {
    EXPECT_EQ(kernel.id.precision, Precision::kTrueHalf);
  }
  ASSERT_THAT(half->kernels[0].points, SizeIs(2));
  EXPECT_EQ(half->kernels[0].points[0].algorithm.precision,
            Precision::kTrueHalf);
  EXPECT_EQ(half->kernels[0].points[1].algorithm.precision,
            Precision::kPseudoHalf);
  EXPECT_EQ(half->kernels[1].id.layer, "l2");

  const auto pseudo =
      SelectKernels(profile_, {.device = "g", .precision = "PSEUDO_HALF"});
  EXPECT_THAT(pseudo.value().kernels[0].points, SizeIs(1));
  const auto tf32 =
      SelectKernels(profile_, {.device = "g", .precision = "TF32"});
  EXPECT_THAT(tf32.value().kernels, SizeIs(2));
}

TEST_F(SelectKernelsTest, TakesAProblemOfTheAskedPrecisionAsItIs) {
  std::string header = kProfileHeader;
  header.replace(header.size() - 1, 1, ",problem\n");
  const std::string problem(kProblem);
  std::string fp32 = problem;
  fp32.replace(fp32.find("TF32"), 4, "FP32");
  const std::string rows =
      "g,n,l,forward,FP32,NCHW,1,A,FMA,0,8," + fp32 + "\n" +
      "g,n,l,forward,FP32,NCHW,1,A,FMA,0,9," + problem + "\n" +
      "g,n,l,forward,TF32,NCHW,1,A,TENSOR,0,5," + problem + "\n";
  const Profile profile = ParseProfileCsv(header + rows, "p.csv").value();
  ASSERT_THAT(profile.kernels, SizeIs(2));
  const auto tf32 = SelectKernels(profile, {.precision = "TF32"});
  ASSERT_TRUE(tf32) << tf32.error().message;
  ASSERT_THAT(tf32->kernels, SizeIs(1));
  ASSERT_THAT(tf32->kernels[0].points, SizeIs(2));
  EXPECT_EQ(tf32->kernels[0].points[0].time, 9000ns);
  const auto exact = SelectKernels(profile, {.precision = "FP32"});
  ASSERT_THAT(exact.value().kernels[0].points, SizeIs(1));
  EXPECT_EQ(exact->kernels[0].points[0].time, 8000ns);

  std::string other = problem;
  other.replace(other.find("h4w4"), 4, "h5w5");
  const auto two = SelectKernels(
      ParseProfileCsv(
          header + rows + "g,n,l,forward,TF32,NCHW,1,A,FMA,0,9," + other + "\n",
          "p.csv")
          .value(),
      {.precision = "TF32"});
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message,
              HasSubstr("layer l forward is of two problems"));
}

TEST(SelectAccurateTest, LeavesOutAlgorithmsThatErr) {
  const std::string csv =
      "device,network,layer,op,precision,layout,batch,algorithm,math,"
      "workspace_bytes,time_us,error\n"
      "g,n,l,forward,FP32,NCHW,1,GEMM,,0,8,1.5e-06\n"
      "g,n,l,forward,FP32,NCHW,1,OLD,,0,7,\n"
      "g,n,l,forward,FP32,NCHW,1,WINOGRAD,,0,4,0.012\n";
  const auto profile = ParseProfileCsv(csv, "p.csv");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->kernels[0].points[0].error_ppt, 1'500'000);
  EXPECT_EQ(profile->kernels[0].points[1].error_ppt, 0);
  EXPECT_EQ(ToCsv(*profile), csv);
  EXPECT_EQ(SelectKernels(*profile, {})->kernels[0].points.size(), 2U);
  EXPECT_EQ(
      SelectKernels(*profile, {.max_error = 0.1})->kernels[0].points.size(),
      3U);
  const auto bad =
      ParseProfileCsv(csv.substr(0, csv.find("g,n")) +
                          "g,n,l,forward,FP32,NCHW,1,GEMM,,0,8,-1\n",
                      "p.csv");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, ::testing::HasSubstr("error"));
}

TEST_F(SelectKernelsTest, KeepsWhatTheFilterAdmits) {
  const auto one = SelectKernels(
      profile_, {.device = "g", .op = "backward_data", .layout = "NCHW"});
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_THAT(one->kernels, SizeIs(1));
  EXPECT_EQ(one->kernels[0].points[0].time, 9000ns);
}

TEST_F(SelectKernelsTest, NamesTheChoicesWhereAFieldIsAmbiguous) {
  for (const auto& [filter, why] :
       {std::pair{ProfileFilter{},
                  "several devices are measured; choose one "
                  "of g, h"},
        std::pair{ProfileFilter{.device = "h"},
                  "several networks are measured; choose one of m, n"},
        std::pair{ProfileFilter{.device = "g"},
                  "choose one of FP32, PSEUDO_HALF, TRUE_HALF"}}) {
    const Error error = ProfileError(filter);
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr(why));
  }
  EXPECT_THAT(SelectKernels(Parsed("g,n,l,forward,FP32,NCHW,1,A,,0,8\n"
                                   "g,n,l,forward,FP32,NHWC,1,A,,0,8\n"),
                            {})
                  .error()
                  .message,
              HasSubstr("several layouts are measured"));
}

TEST_F(SelectKernelsTest, NamesWhatIsNotMeasured) {
  for (const auto& [filter, why] :
       {std::pair{ProfileFilter{.device = "x"},
                  "nothing is measured of device 'x'; there is g, h"},
        std::pair{ProfileFilter{.device = "g", .layer = "l3"},
                  "layer 'l3'; there is l1, l2"},
        std::pair{ProfileFilter{.device = "g", .network = "m"}, "there is n"},
        std::pair{ProfileFilter{.layer = "l2", .op = "backward_filter"},
                  "there is forward"},
        std::pair{ProfileFilter{.precision = "BF16"}, "precision 'BF16'"},
        std::pair{ProfileFilter{.device = "g", .layout = "NHWC"},
                  "there is NCHW"}}) {
    const Error error = ProfileError(filter);
    EXPECT_EQ(error.code, Code::kNotFound);
    EXPECT_THAT(error.message, HasSubstr(why));
  }
  EXPECT_EQ(SelectKernels(Profile(), {}).error().code, Code::kNotFound);
}

TEST_F(SelectKernelsTest, RefusesMalformedFilters) {
  EXPECT_THAT(ProfileError({.op = "x"}).message, HasSubstr("not an operation"));
  EXPECT_THAT(ProfileError({.precision = "x"}).message,
              HasSubstr("not a precision"));
  EXPECT_EQ(ProfileError({.layout = "x"}).code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace ucudnn
