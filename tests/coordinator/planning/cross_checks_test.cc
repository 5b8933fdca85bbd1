#include "coordinator/planning/cross_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr UnixMillis kNow = 1'000'000'000'000;
constexpr const char* kDriver = "driver 1";

std::string Problem(int channels, const std::string& op = "forward",
                    const std::string& precision = "FP32") {
  return fmt::format("{}-c{}-h4w4-k1-r1s1-pad0x0-str1x1-dil1x1-g1-{}-NCHW", op,
                     channels, precision);
}

MeasuredPoint Point(std::int64_t batch, std::int64_t us, int repeats = 5,
                    const std::string& algorithm = "GEMM") {
  MeasuredPoint point;
  point.batch = BatchSize(batch);
  point.algorithm.name = algorithm;
  point.time = std::chrono::microseconds(us);
  point.repeats = repeats;
  return point;
}

KindCrossChecks WithPoints(int count) {
  KindCrossChecks checks;
  for (int i = 1; i <= count; ++i) {
    checks.points.push_back({.id = i,
                             .kind = "k",
                             .problem = Problem(i),
                             .batch = BatchSize(8),
                             .algorithm = {},
                             .workspace = {}});
  }
  return checks;
}

std::vector<DueCrossCheck> Due(const KindCrossChecks& checks,
                               const std::string& device, UnixMillis now_ms) {
  std::vector<CrossCheckMeasurement> own;
  for (const CrossCheckMeasurement& m : checks.measurements) {
    if (m.device == device) own.push_back(m);
  }
  return DueCrossChecks(
      checks.points, own, kDriver,
      std::ranges::any_of(CompareDevices(checks), &DeviceComparison::suspected),
      now_ms);
}

using Measure = std::function<Nanoseconds(
    const std::string& device, std::int64_t check, std::int64_t round)>;

// Has the devices measure all cross-checks that are due.
void MeasureDue(const std::vector<std::string>& devices, const Measure& measure,
                KindCrossChecks* checks) {
  for (bool any = true; any;) {
    any = false;
    for (const std::string& device : devices) {
      for (const auto& [point, round] : Due(*checks, device, kNow)) {
        const Nanoseconds time = measure(device, point.id, round);
        checks->measurements.push_back({.check = point.id,
                                        .device = device,
                                        .round = round,
                                        .driver = kDriver,
                                        .time = time,
                                        .spread = time / 100,
                                        .throttle = "",
                                        .measured_ms = kNow});
        any = true;
      }
    }
  }
}

std::vector<std::string> Deviating(const KindCrossChecks& checks) {
  std::vector<std::string> ids;
  for (const DeviceComparison& c : CompareDevices(checks)) {
    if (c.deviates) ids.push_back(c.device);
  }
  return ids;
}

TEST(CrossChecksTest, ChoosesACheapPointWithEnoughRepeats) {
  const std::vector<MeasuredPoint> points = {
      Point(8, 80, 5, "SLOW"), Point(8, 40, 5, "FAST"),
      Point(8, 30, 1, "LOOKED_AT_ONCE"), Point(8, 25'000, 5, "LONG")};
  const auto chosen = ChooseCrossCheck("k", Problem(1), points, {});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->algorithm.name, "FAST");
  EXPECT_EQ(chosen->batch, BatchSize(8));
  EXPECT_EQ(chosen->kind, "k");
  const std::vector<MeasuredPoint> long_ones = {Point(8, 25'000)};
  EXPECT_FALSE(ChooseCrossCheck("k", Problem(1), long_ones, {}));
  EXPECT_FALSE(ChooseCrossCheck("k", "no problem", points, {}));
}

TEST(CrossChecksTest, ChoosesAFewOfEachPrecisionAndOperation) {
  std::vector<CrossCheck> known;
  const std::vector<MeasuredPoint> points = {Point(8, 40)};
  for (const std::string precision : {"FP32", "TF32"}) {
    for (const std::string op : {"forward", "backward_data"}) {
      int chosen = 0;
      for (int i = 1; i <= 10; ++i) {
        const std::string problem = Problem(i, op, precision);
        const auto check = ChooseCrossCheck("k", problem, points, known);
        if (!check) continue;
        ++chosen;
        known.push_back(*check);
        // No point twice.
        EXPECT_FALSE(ChooseCrossCheck("k", problem, points, known));
      }
      EXPECT_EQ(chosen, 3) << op << " " << precision;
    }
  }
}

TEST(CrossChecksTest, FindsTheSlowerOfTwoDevices) {
  KindCrossChecks checks = WithPoints(3);
  MeasureDue(
      {"a", "b"},
      [](const std::string& device, std::int64_t check, std::int64_t) {
        return Nanoseconds(1000 * check * (device == "b" ? 6 : 5));
      },
      &checks);
  const auto compared = CompareDevices(checks);
  ASSERT_THAT(compared, SizeIs(2));
  EXPECT_EQ(compared[0].device, "a");
  EXPECT_FALSE(compared[0].deviates);
  EXPECT_DOUBLE_EQ(compared[0].relative_time, 1.0);
  EXPECT_EQ(compared[1].device, "b");
  EXPECT_TRUE(compared[1].deviates);
  EXPECT_DOUBLE_EQ(compared[1].relative_time, 1.2);
  EXPECT_EQ(compared[1].points, 3);
  EXPECT_THAT(compared[1].text,
              HasSubstr("takes 20.0 % longer than others of its kind (median "
                        "of 3 cross-checks in FP32"));
  // Each has measured each point three times, at different moments.
  EXPECT_THAT(checks.measurements, SizeIs(2 * 3 * 3));
}

TEST(CrossChecksTest, MeasuresOnceWithoutSuspicion) {
  KindCrossChecks checks = WithPoints(5);
  MeasureDue(
      {"a", "b"},
      [](const std::string&, std::int64_t, std::int64_t) {
        return Nanoseconds(1000);
      },
      &checks);
  EXPECT_THAT(checks.measurements, SizeIs(2 * 5));
  EXPECT_THAT(Deviating(checks), IsEmpty());
}

TEST(CrossChecksTest, DoesNotJudgeBeforeAllRounds) {
  KindCrossChecks checks = WithPoints(3);
  for (const auto& [device, time] : {std::pair{"a", 1000}, {"b", 2000}}) {
    for (std::int64_t check = 1; check <= 3; ++check) {
      checks.measurements.push_back({.check = check,
                                     .device = device,
                                     .round = 1,
                                     .driver = kDriver,
                                     .time = Nanoseconds(time),
                                     .spread = {},
                                     .throttle = {},
                                     .measured_ms = kNow});
    }
  }
  const auto compared = CompareDevices(checks);
  ASSERT_THAT(compared, SizeIs(2));
  EXPECT_TRUE(compared[1].suspected);
  EXPECT_FALSE(compared[1].deviates);
  EXPECT_THAT(Due(checks, "b", kNow), SizeIs(6));
}

TEST(CrossChecksTest, FindsTheOneFastDeviceAmongMany) {
  KindCrossChecks checks = WithPoints(4);
  MeasureDue(
      {"a", "b", "c"},
      [](const std::string& device, std::int64_t, std::int64_t) {
        return Nanoseconds(device == "c" ? 800 : 1000);
      },
      &checks);
  EXPECT_THAT(Deviating(checks), ElementsAre("c"));
  EXPECT_THAT(CompareDevices(checks)[2].text, HasSubstr("20.0 % less time"));
}

TEST(CrossChecksTest, ComparesEachPrecisionByItself) {
  KindCrossChecks checks = WithPoints(6);
  for (std::size_t i = 3; i < 6; ++i) {
    checks.points[i].problem = Problem(1, "forward", "PSEUDO_HALF");
  }
  MeasureDue(
      {"a", "b"},
      [](const std::string& device, std::int64_t check, std::int64_t) {
        return Nanoseconds(device == "b" && check > 3 ? 1500 : 1000);
      },
      &checks);
  EXPECT_THAT(Deviating(checks), ElementsAre("b"));
  EXPECT_EQ(CompareDevices(checks)[1].precision, Precision::kPseudoHalf);
}

TEST(CrossChecksTest, ComparesOnlyMeasurementsUnderOneDriver) {
  KindCrossChecks checks = WithPoints(3);
  MeasureDue(
      {"a", "b"},
      [](const std::string& device, std::int64_t, std::int64_t) {
        return Nanoseconds(device == "b" ? 2000 : 1000);
      },
      &checks);
  ASSERT_THAT(Deviating(checks), ElementsAre("b"));
  for (CrossCheckMeasurement& m : checks.measurements) {
    if (m.device == "b") m.driver = "driver 2";
  }
  EXPECT_THAT(CompareDevices(checks), IsEmpty());
  // Under its new driver it measures all of them again.
  EXPECT_THAT(Due(checks, "b", kNow), SizeIs(3));
}

TEST(CrossChecksTest, IgnoresPointsThatADeviceCouldNotMeasure) {
  KindCrossChecks checks = WithPoints(4);
  MeasureDue(
      {"a", "b"},
      [](const std::string& device, std::int64_t check, std::int64_t) {
        return Nanoseconds(device == "b" && check > 2 ? 0 : 1000);
      },
      &checks);
  const auto compared = CompareDevices(checks);
  ASSERT_THAT(compared, SizeIs(2));
  EXPECT_EQ(compared[1].points, 2);
  EXPECT_FALSE(compared[1].suspected);
}

TEST(CrossChecksTest, ChecksADeviatingDeviceAgainAfterADay) {
  KindCrossChecks checks = WithPoints(3);
  MeasureDue(
      {"a", "b"},
      [](const std::string& device, std::int64_t, std::int64_t) {
        return Nanoseconds(device == "b" ? 2000 : 1000);
      },
      &checks);
  EXPECT_THAT(Due(checks, "b", kNow), IsEmpty());
  const UnixMillis later = kNow + kCrossCheckAgeMs + 1;
  EXPECT_THAT(Due(checks, "b", later), SizeIs(9));
  EXPECT_THAT(Due(checks, "a", later), SizeIs(9));
}

// Four devices that are alike within 2 %. Measurements have 2 % of noise, and
// another program runs on one of the devices for a whole round.
class NoisyDevices {
 public:
  explicit NoisyDevices(unsigned seed) : random_(seed) {
    for (const char* device : {"a", "b", "c", "d"}) {
      factor_[device] = 1 + Uniform(-0.01, 0.01);
      devices_.emplace_back(device);
    }
    disturbed_ = {devices_[random_() % 4],
                  static_cast<std::int64_t>(1 + random_() % 3)};
  }
  void Slow(const std::string& device, double factor) {
    factor_[device] *= factor;
  }
  KindCrossChecks Compare() {
    KindCrossChecks checks = WithPoints(6);
    MeasureDue(
        devices_,
        [&](const std::string& device, std::int64_t check, std::int64_t round) {
          double time = 100'000.0 * static_cast<double>(check) *
                        factor_[device] *
                        (1 + std::normal_distribution<>(0, 0.02)(random_));
          if (std::pair(device, round) == disturbed_) time *= 1.5;
          return Nanoseconds(static_cast<std::int64_t>(time));
        },
        &checks);
    return checks;
  }

 private:
  double Uniform(double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random_);
  }
  std::mt19937 random_;
  std::vector<std::string> devices_;
  std::map<std::string, double> factor_;
  std::pair<std::string, std::int64_t> disturbed_;
};

TEST(CrossChecksTest, IsNotTrippedByNoise) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    EXPECT_THAT(Deviating(NoisyDevices(seed).Compare()), IsEmpty()) << seed;
  }
}

TEST(CrossChecksTest, FindsASlowDeviceInNoise) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    NoisyDevices devices(seed);
    devices.Slow("c", 1.15);
    EXPECT_THAT(Deviating(devices.Compare()), ElementsAre("c")) << seed;
  }
}

TEST(CrossChecksTest, ChecksTheLongestTasksBesideConvolutions) {
  const std::string problem = "tasks-" + std::string(64, 'e') + "-FP32-NCHW";
  const std::vector<MeasuredPoint> points = {
      Point(8, 3, 3, "fc.update"), Point(8, 900, 3, "bn.backward"),
      Point(8, 30'000, 3, "pool.forward")};
  const auto chosen = ChooseCrossCheck("k", problem, points, {});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->algorithm.name, "bn.backward");
  EXPECT_EQ(chosen->problem, problem);
  // Beside as many of each operation.
  EXPECT_TRUE(ChooseCrossCheck("k", problem, points, WithPoints(3).points));
  KindCrossChecks checks;
  for (int i = 1; i <= kCrossChecksPerOp; ++i) {
    checks.points.push_back(*chosen);
    checks.points.back().batch = BatchSize(i);
  }
  EXPECT_FALSE(ChooseCrossCheck("k", problem, points, checks.points));
  EXPECT_EQ(WorkOf(problem), (CheckedWork{std::nullopt, Precision::kFp32}));
  EXPECT_EQ(WorkOf("nonsense"), std::nullopt);
}

}  // namespace
}  // namespace ucudnn
