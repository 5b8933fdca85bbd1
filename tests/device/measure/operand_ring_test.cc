#include "device/measure/operand_ring.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tests/support/fake_device.h"
#include "tests/support/recorded_profile.h"

namespace ucudnn {
namespace {

// One image: 40 elements in, 60 out; a filter of 54.
constexpr std::int64_t kInput = 160;
constexpr std::int64_t kOutput = 240;

ConvProblem ProblemOf(ConvOp op, Precision precision = Precision::kFp32) {
  return {op, test::SmallGeometry(), precision, Layout::kNchw};
}

std::int64_t Distance(const void* from, const void* to) {
  return static_cast<const char*>(to) - static_cast<const char*>(from);
}

TEST(OperandRingTest, GivesEachRunTheImagesAfterThoseOfThePreviousRun) {
  struct Case {
    ConvOp op;
    std::int64_t a, b, out;  // bytes from one run to the next
  };
  for (const Case& c : {Case{ConvOp::kForward, kInput, 0, kOutput},
                        Case{ConvOp::kBackwardData, kOutput, 0, kInput},
                        Case{ConvOp::kBackwardFilter, kInput, kOutput, 0}}) {
    SCOPED_TRACE(Name(c.op));
    FakeDevice device;
    OperandRing ring(device);
    constexpr std::int64_t kImages = 3;
    // 1200 bytes a run: seven and a bit, so eight.
    ASSERT_TRUE(ring.Prepare(ProblemOf(c.op), BatchSize(kImages), 9000_B));
    ASSERT_EQ(ring.RoundOf(BatchSize(kImages)), 8);
    const ConvArgs first = ring.Next(BatchSize(kImages));
    for (std::int64_t run = 1; run < 20; ++run) {
      const ConvArgs args = ring.Next(BatchSize(kImages));
      const std::int64_t turn = run % 8 * kImages;
      EXPECT_EQ(Distance(first.a, args.a), turn * c.a);
      EXPECT_EQ(Distance(first.b, args.b), turn * c.b);
      EXPECT_EQ(Distance(first.out, args.out), turn * c.out);
    }
    // It allocates no more memory than that.
    std::int64_t allocated = 0;
    for (const Bytes size : device.allocations()) allocated += size.count();
    EXPECT_EQ(allocated, 8 * kImages * (kInput + kOutput) + 54 * 4);
  }
}

TEST(OperandRingTest, ContinuesWithFewerImagesWithinItsBuffers) {
  FakeDevice device;
  OperandRing ring(device);
  ASSERT_TRUE(
      ring.Prepare(ProblemOf(ConvOp::kForward), BatchSize(64), 60'000_B));
  ASSERT_EQ(ring.RoundOf(BatchSize(64)), 3);
  const ConvArgs first = ring.Next(BatchSize(64));
  // 60'000 bytes of images; the buffers could hold 192 runs.
  ASSERT_EQ(ring.RoundOf(BatchSize(1)), 150);
  std::set<const void*> seen;
  for (int run = 0; run < 150; ++run) {
    const ConvArgs args = ring.Next(BatchSize(1));
    EXPECT_LE(Distance(first.a, args.a) + kInput, 3 * 64 * kInput);
    EXPECT_LE(Distance(first.out, args.out) + kOutput, 3 * 64 * kOutput);
    EXPECT_TRUE(seen.insert(args.a).second);
  }
  EXPECT_EQ(device.allocations().size(), 3U);
}

TEST(OperandRingTest, ReusesOperandsWithoutARound) {
  FakeDevice device;
  OperandRing ring(device);
  ASSERT_TRUE(ring.Prepare(ProblemOf(ConvOp::kForward), BatchSize(2), Bytes()));
  const ConvArgs first = ring.Next(BatchSize(2));
  const ConvArgs second = ring.Next(BatchSize(2));
  EXPECT_EQ(first.a, second.a);
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(device.allocations()[0], Bytes(2 * kOutput));
}

TEST(OperandRingTest, FillsInputsWithNonzeroNumbers) {
  FakeDevice device;
  OperandRing ring(device);
  // The precision changes, then the buffers must grow.
  for (const auto& [precision, batch] :
       {std::pair{Precision::kFp32, 1}, std::pair{Precision::kPseudoHalf, 1},
        std::pair{Precision::kFp32, 1}, std::pair{Precision::kFp32, 500}}) {
    ASSERT_TRUE(ring.Prepare(ProblemOf(ConvOp::kBackwardFilter, precision),
                             BatchSize(batch), 1_MiB));
    if (precision != Precision::kFp32) continue;
    std::set<float> values;
    const std::int64_t round = ring.RoundOf(BatchSize(batch));
    for (std::int64_t run = 0; run < round; ++run) {
      const ConvArgs args = ring.Next(BatchSize(batch));
      for (const auto& [data, bytes] :
           {std::pair{args.a, kInput}, std::pair{args.b, kOutput}}) {
        std::vector<float> images(static_cast<std::size_t>(bytes / 4 * batch));
        std::memcpy(images.data(), data, images.size() * sizeof(float));
        values.insert(images.begin(), images.end());
      }
    }
    EXPECT_EQ(values.size(), 128U);  // multiples of 1/64
    EXPECT_FALSE(values.contains(0));
    EXPECT_LE(std::fabs(*values.begin()), 1);
    EXPECT_LE(std::fabs(*values.rbegin()), 1);
  }
}

TEST(OperandRingTest, ClearsOnlyTheFilterGradient) {
  FakeDevice device;
  OperandRing ring(device);
  ASSERT_TRUE(ring.Prepare(ProblemOf(ConvOp::kForward), BatchSize(4), 1_KiB));
  auto* const out = static_cast<char*>(ring.Next(BatchSize(4)).out);
  std::memset(out, 1, 54 * 4 + 1);
  ASSERT_TRUE(ring.ClearFilterGradient());
  EXPECT_EQ(out[0], 1);  // there is none
  ASSERT_TRUE(
      ring.Prepare(ProblemOf(ConvOp::kBackwardFilter), BatchSize(4), 1_KiB));
  ASSERT_EQ(ring.Next(BatchSize(4)).out, out);
  ASSERT_TRUE(ring.ClearFilterGradient());
  EXPECT_EQ(std::string(out, 54 * 4), std::string(54 * 4, '\0'));
  EXPECT_EQ(out[54 * 4], 1);
}

TEST(OperandRingTest, HoldsNothingAfterAnError) {
  FakeDevice device;
  OperandRing ring(device);
  EXPECT_EQ(ring.RoundOf(BatchSize(1)), 0);
  // The result and `a` fit, `b` does not.
  device.set_total_memory(Bytes(54 * 4 + 10 * kInput));
  const Status failed =
      ring.Prepare(ProblemOf(ConvOp::kBackwardFilter), BatchSize(10), Bytes());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kResourceExhausted);
  EXPECT_EQ(ring.RoundOf(BatchSize(1)), 0);
  EXPECT_TRUE(device.Allocate(Bytes(54 * 4 + 10 * kInput)));
}

}  // namespace
}  // namespace ucudnn
