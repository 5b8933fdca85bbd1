// Measurements and cross-checks.

#include <fmt/format.h>

#include <atomic>
#include <barrier>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_P(StoreContract, KeepsTheNewestMeasurementOfAPoint) {
  const auto put = [&](std::int64_t time_ns, UnixMillis at) {
    const std::vector<Measurement> one = {
        TestMeasurement(1, TestPoint(32, "FFT", time_ns), at)};
    return store().measurements.PutMeasurements(one);
  };
  const auto time = [&] {
    const std::vector<std::string> problems = {TestTask(1).key.problem};
    const auto profile =
        store()
            .measurements.LoadProfile(ToString(TestKind()), problems)
            .value();
    EXPECT_THAT(profile.at(problems[0]), SizeIs(1));
    return profile.at(problems[0]).at(0).time.count();
  };
  // The newest is what came last, whatever its device's clock said.
  constexpr UnixMillis kFuture = 4'000'000'000'000;
  ASSERT_TRUE(put(100, 1000));
  ASSERT_TRUE(put(200, kFuture));
  EXPECT_EQ(time(), 200);
  ASSERT_TRUE(put(300, 1500));
  EXPECT_EQ(time(), 300);
  // The same holds within one call.
  const std::vector<Measurement> three = {
      TestMeasurement(1, TestPoint(32, "FFT", 1), 3000),
      TestMeasurement(1, TestPoint(32, "FFT", 2), 4000),
      TestMeasurement(1, TestPoint(32, "FFT", 3), 3500)};
  ASSERT_TRUE(store().measurements.PutMeasurements(three));
  EXPECT_EQ(time(), 3);
}

TEST_P(StoreContract, TakesNewPointsBesideThoseOfMeasuredBatches) {
  const std::vector<Measurement> before = {
      TestMeasurement(1, TestPoint(8, "A", 10))};
  ASSERT_TRUE(store().measurements.PutMeasurements(before));
  const std::vector<Measurement> points = {
      TestMeasurement(1, TestPoint(8, "A", 20)),
      TestMeasurement(1, TestPoint(8, "B", 30)),
      TestMeasurement(1, TestPoint(16, "A", 40)),
      TestMeasurement(2, TestPoint(8, "A", 50))};
  ASSERT_TRUE(store().measurements.PutMeasurements(points));
  const std::vector<std::string> problems = {TestTask(1).key.problem,
                                             TestTask(2).key.problem};
  const auto profile =
      store().measurements.LoadProfile(ToString(TestKind()), problems).value();
  EXPECT_THAT(profile.at(problems[0]),
              ElementsAre(TestPoint(8, "A", 20), TestPoint(8, "B", 30),
                          TestPoint(16, "A", 40)));
  EXPECT_THAT(profile.at(problems[1]), ElementsAre(TestPoint(8, "A", 50)));
}

TEST_P(StoreContract, TakesTheSameNewPointsFromWritersAtOnce) {
  constexpr int kWriters = 4;
  constexpr int kBatches = 25;
  constexpr int kAlgorithms = 20;
  std::barrier together(kWriters);
  std::atomic<int> failed = 0;
  std::vector<std::jthread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (int batch = 1; batch <= kBatches; ++batch) {
        std::vector<Measurement> points;
        for (int i = 0; i < kAlgorithms; ++i) {
          points.push_back(TestMeasurement(
              1, TestPoint(batch, "A" + std::to_string(i), w + 1)));
        }
        together.arrive_and_wait();
        if (!store().measurements.PutMeasurements(points)) ++failed;
      }
    });
  }
  writers.clear();
  EXPECT_EQ(failed, 0);
  const std::vector<std::string> problems = {TestTask(1).key.problem};
  const auto profile =
      store().measurements.LoadProfile(ToString(TestKind()), problems).value();
  EXPECT_THAT(profile.at(problems[0]), SizeIs(kBatches * kAlgorithms));
}

TEST_P(StoreContract, KeepsWhatSeveralWritersAddToABatch) {
  constexpr int kWriters = 4;
  constexpr int kAlgorithms = 20;
  const std::vector<Measurement> first = {
      TestMeasurement(1, TestPoint(8, "first", 1))};
  ASSERT_TRUE(store().measurements.PutMeasurements(first));
  std::barrier together(kWriters);
  std::atomic<int> failed = 0;
  std::vector<std::jthread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < kAlgorithms; ++i) {
        const std::vector<Measurement> point = {TestMeasurement(
            1, TestPoint(8, fmt::format("{} of {}", i, w), w + 1))};
        together.arrive_and_wait();
        if (!store().measurements.PutMeasurements(point)) ++failed;
      }
    });
  }
  writers.clear();
  EXPECT_EQ(failed, 0);
  EXPECT_THAT(
      store().measurements.LoadMeasurements(ToString(TestKind())).value(),
      SizeIs(1 + kWriters * kAlgorithms));
}

TEST_P(StoreContract, KnowsPointsOfSeveralDrivers) {
  const std::string kind = ToString(TestKind());
  const auto under = [](const std::string& driver, const char* algorithm,
                        std::int64_t time_ns) {
    Measurement m = TestMeasurement(1, TestPoint(8, algorithm, time_ns));
    m.origin.driver = driver;
    return m;
  };
  const auto put = [&](std::vector<Measurement> measured) {
    ASSERT_TRUE(store().measurements.PutMeasurements(measured));
  };
  const auto times = [&](const std::vector<std::string>& drivers) {
    std::vector<std::int64_t> found;
    const auto profile =
        store().measurements.LoadProfile(kind, {}, drivers).value();
    for (const auto& [problem, points] : profile) {
      for (const MeasuredPoint& point : points) {
        found.push_back(point.time.count());
      }
    }
    return found;
  };
  put({under("old", "A", 1), under("old", "B", 2), under("", "C", 3)});
  EXPECT_THAT(times({"old"}), ElementsAre(1, 2, 3));
  EXPECT_THAT(times({"new"}), ElementsAre(3));
  // A point measured under another driver replaces it.
  put({under("new", "A", 4)});
  EXPECT_THAT(times({"old"}), ElementsAre(2, 3));
  EXPECT_THAT(times({"new"}), ElementsAre(4, 3));
  EXPECT_THAT(times({}), ElementsAre(4, 2, 3));
  using ByDriver = std::map<std::string, std::int64_t>;
  EXPECT_EQ(store().measurements.ListProfiles()->at(0).points_by_driver,
            (ByDriver{{"", 1}, {"new", 1}, {"old", 1}}));
  put({under("new", "B", 5), under("new", "C", 6)});
  EXPECT_THAT(times({"old"}), IsEmpty());
  EXPECT_EQ(store().measurements.ListProfiles()->at(0).points_by_driver,
            (ByDriver{{"new", 3}}));
}

TEST_P(StoreContract, LoadsProfilesInOrderAndByBatch) {
  std::vector<Measurement> points;
  for (const std::int64_t batch : {64, 8, 32}) {
    for (const char* algorithm : {"b", "A", "a"}) {
      points.push_back(
          TestMeasurement(1, TestPoint(batch, algorithm, batch * 10)));
    }
  }
  points.push_back(TestMeasurement(2, TestPoint(8, "A", 7), 2000));
  points.back().point.algorithm.precision = Precision::kTrueHalf;
  points.back().point.algorithm.math.clear();
  points.push_back(points.front());
  points.back().point.workspace = 1_MiB;
  ASSERT_TRUE(store().measurements.PutMeasurements(points));

  const std::vector<std::string> problems = {
      TestTask(1).key.problem, TestTask(2).key.problem, "unknown"};
  auto profile =
      store().measurements.LoadProfile(ToString(TestKind()), problems).value();
  ASSERT_THAT(profile, SizeIs(2));
  const auto& first = profile.at(problems[0]);
  ASSERT_THAT(first, SizeIs(10));
  EXPECT_EQ(first[0], TestPoint(8, "A", 80));
  EXPECT_EQ(first[1].algorithm.name, "a");
  EXPECT_EQ(first[2].algorithm.name, "b");
  EXPECT_EQ(first[8].workspace, 1_MiB);
  EXPECT_EQ(first[9].batch, BatchSize(64));
  EXPECT_THAT(profile.at(problems[1]),
              ElementsAre(points[points.size() - 2].point));

  EXPECT_THAT(store().measurements.LoadProfile("none", problems).value(),
              IsEmpty());
  EXPECT_EQ(store().measurements.LoadProfile(ToString(TestKind()), {}).value(),
            profile);
  EXPECT_THAT(store().measurements.ListProfiles().value(),
              ElementsAre(ProfileSummary{
                  ToString(TestKind()), 2, 11, 2000, {{"CUDA 13.0", 11}}}));
}

TEST_P(StoreContract, StoresManyMeasurementsAllOrNothing) {
  std::vector<Measurement> many;
  std::vector<std::string> problems;
  for (int problem = 0; problem < 400; ++problem) {
    problems.push_back(TestTask(problem).key.problem);
    for (int batch = 1; batch <= 10; ++batch) {
      many.push_back(TestMeasurement(problem, TestPoint(batch, "A", batch)));
    }
  }
  std::vector<Measurement> spoilt = many;
  spoilt.back().origin.device = "\xC0\xAF";
  EXPECT_EQ(store().measurements.PutMeasurements(spoilt).error().code,
            Code::kInvalidArgument);
  EXPECT_THAT(store().measurements.ListProfiles().value(), IsEmpty());
  ASSERT_TRUE(store().measurements.PutMeasurements(many));
  const auto profile =
      store().measurements.LoadProfile(ToString(TestKind()), problems).value();
  ASSERT_THAT(profile, SizeIs(400));
  EXPECT_THAT(profile.at(problems[399]), SizeIs(10));
}

TEST_P(StoreContract, LoadsProfilesInPagesOfWholeProblems) {
  std::vector<Measurement> all;
  for (const int problem : {1, 2, 3}) {
    for (const std::int64_t batch : {8, 16, 32}) {
      all.push_back(TestMeasurement(problem, TestPoint(batch, "A", 1)));
    }
  }
  ASSERT_TRUE(store().measurements.PutMeasurements(all));
  const std::string kind = ToString(TestKind());
  EXPECT_THAT(store().measurements.LoadMeasurements(kind).value(), SizeIs(9));
  std::vector<std::size_t> pages;
  std::vector<Measurement> loaded;
  std::string after;
  while (true) {
    // Room for two problems, but not for three.
    const auto page =
        store().measurements.LoadMeasurements(kind, after, 8).value();
    pages.push_back(page.size());
    if (page.empty()) break;
    after = page.back().problem;
    loaded.insert(loaded.end(), page.begin(), page.end());
  }
  EXPECT_THAT(pages, ElementsAre(6, 3, 0));
  EXPECT_EQ(loaded, all);
  // One problem at least.
  EXPECT_THAT(store().measurements.LoadMeasurements(kind, "", 1).value(),
              SizeIs(3));
}

TEST_P(StoreContract, KeepsExtremeNumbers) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  Measurement m = TestMeasurement(1, TestPoint(1, "A", kMost), kMax);
  m.point.workspace = Bytes(kMost);
  const std::vector<Measurement> one = {m};
  ASSERT_TRUE(store().measurements.PutMeasurements(one));
  // Values beyond what readers accept.
  std::vector<Measurement> beyond(3, m);
  beyond[0].point.workspace = Bytes::Max();
  beyond[1].point.time = Nanoseconds(kMost + 1);
  beyond[2].point.spread = Nanoseconds(-1);
  for (const Measurement& refused : beyond) {
    EXPECT_EQ(store()
                  .measurements.PutMeasurements(std::span(&refused, 1))
                  .error()
                  .code,
              Code::kInvalidArgument);
  }
  const std::vector<std::string> problems = {m.problem};
  EXPECT_THAT(store().measurements.LoadProfile(m.kind, problems)->at(m.problem),
              ElementsAre(m.point));
  EXPECT_EQ(store().measurements.ListProfiles()->at(0).last_measured_ms, kMax);
}

TEST_P(StoreContract, ImportsProfilesAsIfTheyHadBeenMeasuredHere) {
  Enqueue(store(), {TestTask(1), TestTask(2)});
  const TaskRecord begun = Lease(store(), 1, 10).at(0);
  std::vector<Measurement> measurements;
  std::vector<CompleteBatch> batches;
  for (const int problem : {1, 2, 3}) {
    Measurement m = TestMeasurement(problem, TestPoint(32, "FFT", 7));
    m.origin.clocks = {1755, 3201, "thermal"};
    measurements.push_back(m);
    batches.push_back({m.kind, m.problem, BatchSize(32), 64_MiB, "580"});
  }
  ASSERT_TRUE(store().measurements.ImportProfile(measurements, batches, 50));
  ASSERT_TRUE(store().measurements.ImportProfile(measurements, batches, 60));
  EXPECT_EQ(store().measurements.LoadMeasurements(begun.key.kind),
            measurements);
  // Leased tasks stay leased; the others are done.
  EXPECT_EQ(store().tasks.GetTask(begun.id)->state, TaskState::kLeased);
  EXPECT_THAT(Lease(store(), 9, 20), IsEmpty());
  EXPECT_EQ(Enqueue(store(), {TestTask(3)}).added, 0);
  EXPECT_THAT(store().measurements.ListCompleteBatches(begun.key.kind).value(),
              SizeIs(2));
  EXPECT_THAT(
      store()
          .measurements.ListCompleteBatches(begun.key.kind, "forward-c3")
          .value(),
      ElementsAre(batches[2]));
}

TEST_P(StoreContract, KeepsCrossChecksAndWhatDevicesMeasured) {
  const auto check = [](int problem, const std::string& algorithm) {
    return CrossCheck{.kind = ToString(TestKind()),
                      .problem = TestTask(problem).key.problem,
                      .batch = BatchSize(32),
                      .algorithm = {algorithm, "FMA", Precision::kTf32},
                      .workspace = 8_MiB};
  };
  // Completes a task with a cross-check among its points.
  const auto complete = [&](const CrossCheck& chosen, const std::string& goal) {
    const NewTask task{.key = {.kind = chosen.kind,
                               .problem = chosen.problem,
                               .batch = chosen.batch,
                               .goal = goal},
                       .max_workspace = 64_MiB};
    ASSERT_TRUE(store().tasks.EnqueueTasks(std::span(&task, 1), {}, 10));
    const auto leased = store().tasks.LeaseTasks({.kind = chosen.kind,
                                                  .agent = "a",
                                                  .device = "GPU-1",
                                                  .now_ms = 10,
                                                  .until_ms = 20});
    ASSERT_THAT(*leased, SizeIs(1));
    const TaskCompletion completion{
        .lease = leased->front().lease(),
        .max_workspace = 64_MiB,
        .points = {{.batch = chosen.batch,
                    .algorithm = chosen.algorithm,
                    .workspace = chosen.workspace,
                    .time = Nanoseconds(100),
                    .spread = Nanoseconds(1)}},
        .origin = {.device = "GPU-1",
                   .driver = "d",
                   .measured_ms = 1000,
                   .clocks = {.throttle = "thermal"}},
        .now_ms = 1000,
        .cross_check = chosen};
    ASSERT_TRUE(store().tasks.CompleteTask(completion));
    EXPECT_TRUE(store().tasks.CompleteTask(completion)->already);
  };
  EXPECT_THAT(
      store().measurements.LoadCrossChecks(ToString(TestKind()))->points,
      IsEmpty());
  complete(check(1, "A"), "");
  // The first choice stays.
  complete(check(1, "B"), "adaptive");
  auto checks =
      store().measurements.LoadCrossChecks(ToString(TestKind())).value();
  ASSERT_THAT(checks.points, SizeIs(1));
  CrossCheck expected = check(1, "A");
  expected.id = checks.points[0].id;
  EXPECT_EQ(checks.points[0], expected);

  CrossCheckMeasurement first{.check = expected.id,
                              .device = "GPU-1",
                              .round = 1,
                              .driver = "d",
                              .time = Nanoseconds(100),
                              .spread = Nanoseconds(1),
                              .throttle = "thermal",
                              .measured_ms = 1000};
  first.sequence = checks.measurements.at(0).sequence;
  EXPECT_THAT(checks.measurements, ElementsAre(first));
  CrossCheckMeasurement second = first;
  second.round = 2;
  ASSERT_TRUE(store().measurements.PutCrossCheckMeasurement(second));
  // What comes later replaces the stored one, though its clock went back.
  second.time = Nanoseconds(90);
  second.driver = "d2";
  second.measured_ms = 500;
  ASSERT_TRUE(store().measurements.PutCrossCheckMeasurement(second));
  checks = store().measurements.LoadCrossChecks(ToString(TestKind())).value();
  ASSERT_THAT(checks.measurements, SizeIs(2));
  EXPECT_GT(checks.measurements[1].sequence, first.sequence);
  second.sequence = checks.measurements[1].sequence;
  EXPECT_THAT(checks.measurements, ElementsAre(first, second));
  EXPECT_THAT(
      store().measurements.LoadCrossChecks(ToString(TestKind(1)))->measurements,
      IsEmpty());

  // A report of another cross-check with this id is refused.
  const std::string epoch = store().Epoch().value();
  EXPECT_TRUE(store().measurements.PutCrossCheckMeasurement(
      second, {epoch, expected.kind, expected.problem}));
  for (const ReportIdentity& other :
       {ReportIdentity{"another", expected.kind, expected.problem},
        ReportIdentity{epoch, expected.kind, TestTask(2).key.problem}}) {
    const Status put =
        store().measurements.PutCrossCheckMeasurement(first, other);
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, Code::kFailedPrecondition);
  }
  CrossCheckMeasurement unknown = first;
  unknown.check = 999;
  EXPECT_EQ(store().measurements.PutCrossCheckMeasurement(unknown).error().code,
            Code::kNotFound);
}

TEST_P(StoreContract, KeepsTheLastDeviceModelUnderEachDriver) {
  const auto put = [&](const std::string& driver, UnixMillis at,
                       const std::string& model) {
    return store().measurements.PutDeviceModel({.kind = "k",
                                                .driver = driver,
                                                .device = "d",
                                                .measured_ms = at,
                                                .model = model});
  };
  const auto models = [&] {
    std::vector<std::string> texts;
    const auto records = store().measurements.ListDeviceModels("k").value();
    for (const DeviceModelRecord& record : records) {
      texts.push_back(record.driver + " " + record.model);
    }
    return texts;
  };
  EXPECT_THAT(models(), IsEmpty());
  ASSERT_TRUE(put("one", 2000, "{\"a\":1}"));
  EXPECT_THAT(models(), ElementsAre("one {\"a\":1}"));
  ASSERT_TRUE(put("one", 1000, "again, by a clock that went back"));
  ASSERT_TRUE(put("two", 3000, "another"));
  ASSERT_TRUE(put("", 1500, "of no driver"));
  EXPECT_THAT(models(), ElementsAre(" of no driver", "two another",
                                    "one again, by a clock that went back"));
  const DeviceModelRecord expected = {
      .kind = "k",
      .driver = "one",
      .device = "d",
      .measured_ms = 1000,
      .model = "again, by a clock that went back"};
  EXPECT_EQ(store().measurements.ListDeviceModels("k")->at(2), expected);
  EXPECT_THAT(store().measurements.ListDeviceModels("other").value(),
              IsEmpty());
  EXPECT_EQ(put(std::string(513, 'x'), 1, "").error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(
      store().measurements.PutDeviceModel(DeviceModelRecord()).error().code,
      Code::kInvalidArgument);
}

TEST_P(StoreContract, StoresAsManyPointsAsAProfileHas) {
  std::vector<Measurement> many;
  for (int batch = 1; batch <= 10'001; ++batch) {
    many.push_back(TestMeasurement(1, TestPoint(batch, "GEMM", batch)));
  }
  ASSERT_TRUE(store().measurements.PutMeasurements(many));
  EXPECT_EQ(store().measurements.LoadMeasurements(ToString(TestKind()))->size(),
            10'001U);
  const auto stored = store().measurements.LoadProfile(
      ToString(TestKind()), std::vector{many[0].problem});
  EXPECT_EQ(stored->at(many[0].problem).back(), many.back().point);
}

}  // namespace
}  // namespace ucudnn
