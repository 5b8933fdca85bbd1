// Segments for announced kernels and for those of the network that a job names.

#include "client/dropin/planner/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "client/dropin/planner/named_network.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

LocalSolver::Kernel KernelOf(std::int64_t channels, std::int64_t batch = 8) {
  LocalSolver::Kernel kernel;
  kernel.problem.geometry.channels = channels;
  kernel.batch = BatchSize(batch);
  return kernel;
}

SegmentTable::Owner OwnerOf(std::uint64_t call, int handle = 0) {
  static const int handles[2] = {};
  return {&handles[handle], call, nullptr};
}

// Assigns every kernel an offset of its own.
void Divide(SegmentTable* table, std::uint64_t epoch) {
  std::vector<KernelPlan> plans(table->Kernels().size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].offset = Bytes(256 * static_cast<std::int64_t>(i));
  }
  table->Assign(std::move(plans), epoch);
}

TEST(SegmentTableTest, IncludesNamedKernelsBeforeTheyRun) {
  SegmentTable table;
  ASSERT_TRUE(table.Announce(OwnerOf(1), KernelOf(3)));
  table.Reserve(std::vector{KernelOf(3), KernelOf(4), KernelOf(5)});
  EXPECT_THAT(table.Kernels(),
              UnorderedElementsAre(KernelOf(3), KernelOf(4), KernelOf(5)));
  Divide(&table, 7);
  // Each owner finds its segment without a new division.
  ASSERT_TRUE(table.Announce(OwnerOf(2), KernelOf(5)));
  ASSERT_TRUE(table.Announce(OwnerOf(3), KernelOf(4)));
  EXPECT_EQ(table.At(OwnerOf(2)).epoch, 7U);
  EXPECT_EQ(table.At(OwnerOf(3)).epoch, 7U);
  EXPECT_NE(table.At(OwnerOf(2)).plan.offset, table.At(OwnerOf(3)).plan.offset);
  EXPECT_NE(table.At(OwnerOf(1)).plan.offset, table.At(OwnerOf(3)).plan.offset);
  // A kernel that was not named, or named less often, is new.
  ASSERT_TRUE(table.Announce(OwnerOf(4), KernelOf(4)));
  ASSERT_TRUE(table.Announce(OwnerOf(5), KernelOf(5, 9)));
  EXPECT_EQ(table.At(OwnerOf(4)).epoch, 0U);
  EXPECT_EQ(table.At(OwnerOf(5)).epoch, 0U);
}

TEST(SegmentTableTest, ReservesEachNamedKernelAsOftenAsItIsNamed) {
  SegmentTable table;
  const std::vector named = {KernelOf(3), KernelOf(3), KernelOf(3)};
  ASSERT_TRUE(table.Announce(OwnerOf(1), KernelOf(3)));
  table.Reserve(named);
  table.Reserve(named);
  EXPECT_THAT(table.Kernels(), SizeIs(3));
}

TEST(SegmentTableTest, ForgetsHandlesAndReservations) {
  SegmentTable table;
  ASSERT_TRUE(table.Announce(OwnerOf(1, 0), KernelOf(3)));
  ASSERT_TRUE(table.Announce(OwnerOf(1, 1), KernelOf(3)));
  EXPECT_FALSE(table.DropReserved());
  table.Reserve(std::vector{KernelOf(4)});
  table.Forget(OwnerOf(1, 0).handle);
  EXPECT_THAT(table.Kernels(), UnorderedElementsAre(KernelOf(3), KernelOf(4)));
  EXPECT_TRUE(table.DropReserved());
  EXPECT_THAT(table.Kernels(), ElementsAre(KernelOf(3)));
}

TEST(SegmentTableTest, LimitsTheNumberOfKernels) {
  SegmentTable table;
  for (std::uint64_t call = 1; call <= 16384; ++call) {
    ASSERT_TRUE(table.Announce(OwnerOf(call), KernelOf(3)));
  }
  EXPECT_TRUE(table.Announce(OwnerOf(1), KernelOf(3)));
  const auto refused = table.Announce(OwnerOf(16385), KernelOf(3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
}

class NamedNetworkTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  test::TemporaryFolder folder_;
};

TEST_F(NamedNetworkTest, NamesAllKernelsOfAnIteration) {
  const auto named = NamedNetwork::Read(
      Write("n.csv",
            "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
            "a,3,9,9,8,3,3,1,1,1,1,1\n"
            "b,8,9,9,8,3,3,1,1,1,1,1\n"
            "c,8,9,9,8,3,3,1,1,1,1,1\n"),
      "kind");
  ASSERT_TRUE(named) << named.error().message;
  LocalSolver::Kernel first = KernelOf(3, 32);
  first.problem.precision = Precision::kTf32;
  first.problem.layout = Layout::kNhwc;
  // The first layer has no data gradient; b and c have equal shapes.
  EXPECT_THAT(named->KernelsLike(first, true), SizeIs(8));
  const auto kernels = named->KernelsLike(first, false);
  EXPECT_THAT(kernels, SizeIs(5));
  for (const LocalSolver::Kernel& kernel : kernels) {
    EXPECT_EQ(kernel.batch, BatchSize(32));
    EXPECT_EQ(kernel.problem.precision, Precision::kTf32);
    EXPECT_EQ(kernel.problem.layout, Layout::kNhwc);
  }
  EXPECT_THAT(NamedNetwork().KernelsLike(first, true), IsEmpty());
}

TEST_F(NamedNetworkTest, TakesAPlansKernelsOfTheBatch) {
  const std::string plan = R"({"batch":4,"workspace_limit_bytes":8,
    "total_time_us":2,"lower_bound_us":2,"optimal":true,
    "undivided_time_us":null,"total_workspace_bytes":8,"kernels":[
    {"layer":"c","op":"forward","precision":"FP32","layout":"NCHW",
     "problem":"forward-c3-h1w1-k1-r1s1-pad0x0-str1x1-dil1x1-g1-FP32-NCHW",
     "time_us":2,"undivided_time_us":null,"workspace_bytes":8,
     "micro_batches":[{"batch":2,"count":2,"algorithm":"GEMM","math":"FMA",
       "time_us":1,"workspace_bytes":8}]}]})";
  const auto named = NamedNetwork::Read(Write("p.json", plan), "kind");
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_THAT(named->KernelsLike(KernelOf(1, 4), true), SizeIs(1));
  EXPECT_THAT(named->KernelsLike(KernelOf(1, 5), true), IsEmpty());
  // The program is one of the ranks: others divide arenas of their own.
  const std::string rank =
      R"({"device_kind":"kind","batch":4,"weight":0.5,"workspace":)" + plan +
      "}";
  const auto job = NamedNetwork::Read(
      Write("j.json",
            R"({"request":{"network":"n","batch":8,"device_kinds":[]},)"
            R"("ranks":[)" +
                rank + "," + rank + "]}"),
      "kind");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_THAT(job->KernelsLike(KernelOf(1, 4), true), SizeIs(1));
}

TEST_F(NamedNetworkTest, SaysWhatIsAccepted) {
  const auto onnx = NamedNetwork::Read(Write("m.onnx", "\x08\x07"), "kind");
  ASSERT_FALSE(onnx);
  EXPECT_THAT(onnx.error().message,
              AllOf(HasSubstr("m.onnx"), HasSubstr("ucudnn networks convert")));
  EXPECT_THAT(
      NamedNetwork::Read(Write("n.csv", "name,C\n"), "k").error().message,
      HasSubstr("n.csv"));
  EXPECT_THAT(NamedNetwork::Read(Write("p.json", "{}"), "k").error().message,
              HasSubstr("p.json"));
  EXPECT_FALSE(NamedNetwork::Read(folder_ / "none", "k"));
}

}  // namespace
}  // namespace ucudnn
