// The drop-in handle's library in a program, on a GPU simulated on the host
// (tests/support/fake_gpu). The environment configures it and is read once, so
// tests of an arena run in a process of their own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/dropin/handle/counts.h"
#include "tests/client/dropin/handle/fake_layer.h"
#include "tests/support/fake_gpu/fake_gpu.h"
#include "tests/support/process.h"
#include "ucudnn/handle.h"

namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::SizeIs;

// conv1 3 -> 4, conv2 4 -> 4 and conv3 4 -> 6 channels, all 6x6 with a 3x3
// filter.
constexpr const char* kNetwork =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,6,6,4,3,3,1,1,1,1,1\n"
    "conv2,4,6,6,4,3,3,1,1,1,1,1\n"
    "conv3,4,6,6,6,3,3,1,1,1,1,1\n";

// Runs before any ucudnn code.
class Surroundings : public ::testing::Environment {
 public:
  Surroundings() {
    setenv("UCUDNN_CACHE_DIR", folder_.path().c_str(), 1);
    if (Unlimited() == 0) setenv("UCUDNN_WORKSPACE_LIMIT", "9000", 1);
    std::ofstream(folder_ / "network.csv") << kNetwork;
    setenv("UCUDNN_NETWORK_FILE", (folder_ / "network.csv").c_str(), 1);
  }

 private:
  ucudnn::test::TemporaryFolder folder_;
};
const auto* const surroundings =
    ::testing::AddGlobalTestEnvironment(new Surroundings);

class HandleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (HasArena() || Unlimited() > 0) {
      GTEST_SKIP() << "of a limit for each convolution";
    }
    ASSERT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
  }
  void TearDown() override {
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }
  UcudnnHandle_t handle_ = nullptr;
};

TEST_F(HandleTest, RunsMicroBatchesWithinTheLimit) {
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  EXPECT_EQ(layer.Ask(handle_), 8 * kFakeWorkspace);
  layer.Reset();
  const int before = FakeGpuRuns();
  layer.Run(handle_);
  const auto runs = RunsSince(before);
  EXPECT_THAT(runs, SizeIs(12));
  for (const FakeGpuRun& run : runs) {
    EXPECT_EQ(run.batch, 8);
    EXPECT_EQ(run.algorithm, 1);
    EXPECT_EQ(run.workspace_size, 8 * kFakeWorkspace);
  }
  ExpectEqual(layer, expected);
}

TEST_F(HandleTest, FollowsAChangedLimit) {
  Layer layer(3, 4);
  ASSERT_EQ(ucudnnSetWorkspaceLimit(handle_, 16 * kFakeWorkspace),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(layer.Ask(handle_), 16 * kFakeWorkspace);
  ASSERT_EQ(ucudnnSetWorkspaceLimit(handle_, 0), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(layer.Ask(handle_), 0U);
}

TEST_F(HandleTest, NeitherAllocatesNorLocksOnceCaptured) {
  if (!IsCounting()) GTEST_SKIP() << "the thread sanitizer counts for itself";
  Layer layer(3, 4);
  layer.Ask(handle_);
  layer.Reset();
  layer.Run(handle_);  // plans
  layer.Run(handle_);  // captures
  const int runs = FakeGpuRuns();
  const int launches = FakeGpuGraphs().launches;
  const int allocated = Allocations();
  const int locked = Locks();
  EXPECT_GT(allocated, 0);
  EXPECT_GT(locked, 0);
  for (int step = 0; step < 20; ++step) layer.Run(handle_);
  EXPECT_EQ(FakeGpuRuns() - runs, 20 * 12);
  EXPECT_EQ(FakeGpuGraphs().launches - launches, 20 * 3);
  EXPECT_EQ(Allocations(), allocated);
  EXPECT_EQ(Locks(), locked);
}

TEST_F(HandleTest, ServesThreadsWithHandlesOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      UcudnnHandle_t handle;
      ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
      Layer layer(3 + t % 2, 5);
      layer.Ask(handle);
      layer.Reset();
      layer.Run(handle);
      EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Without a limit, nothing may become slower than with cuDNN alone. The fast
// algorithm needs 64 MiB for half of the images.
class NoLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Unlimited() == 0) GTEST_SKIP() << "of convolutions without a limit";
    unsetenv("FAKE_GPU_SUGGESTION");
    ASSERT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
  }
  void TearDown() override {
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }
  static auto Is(int batch, int algorithm) {
    return AllOf(Field("batch", &FakeGpuRun::batch, batch),
                 Field("algorithm", &FakeGpuRun::algorithm, algorithm));
  }

  const std::size_t whole_ = kImages * Unlimited();
  UcudnnHandle_t handle_ = nullptr;
};

TEST_F(NoLimitTest, LeavesCudnnsChoiceItsWorkspaceIfItIsFastest) {
  Layer layer(3, 4);
  EXPECT_EQ(layer.Ask(handle_), whole_);
  layer.Reset();
  const int before = FakeGpuRuns();
  layer.Run(handle_);
  EXPECT_THAT(RunsSince(before), AllOf(SizeIs(3), Each(Is(kImages, 1))));
}

TEST_F(NoLimitTest, ReplacesASlowChoiceWithinTheDefaultLimit) {
  setenv("FAKE_GPU_SUGGESTION", "0", 1);
  Layer layer(3, 5);
  const auto expected = Alone(layer);
  EXPECT_EQ(layer.Ask(handle_), whole_ / 2);
  layer.Reset();
  const int before = FakeGpuRuns();
  layer.Run(handle_);
  EXPECT_THAT(RunsSince(before), AllOf(SizeIs(6), Each(Is(kImages / 2, 1))));
  ExpectEqual(layer, expected);
}

TEST_F(NoLimitTest, FindsWithinTheWorkspaceThatTheProgramOffers) {
  Layer layer(3, 6);
  EXPECT_EQ(layer.Find(handle_, whole_ - 1), whole_ / 2);
  // The workspace that the program brings is what counts.
  EXPECT_EQ(layer.Find(handle_, whole_), whole_);
  const int before = FakeGpuRuns();
  layer.RunForward(handle_, 1, whole_);
  EXPECT_THAT(RunsSince(before), ElementsAre(Is(kImages, 1)));
}

TEST_F(NoLimitTest, LetsAProgramKeepItsOwnAlgorithm) {
  Layer layer(3, 7);
  EXPECT_EQ(layer.SizeOf(handle_, 1), whole_);
  EXPECT_EQ(layer.SizeOf(handle_, 0), 0U);
  layer.RunForward(handle_, 1, whole_);  // plans
  int before = FakeGpuRuns();
  layer.RunForward(handle_, 1, whole_);
  EXPECT_THAT(RunsSince(before), ElementsAre(Is(kImages, 1)));
  // A slow algorithm is replaced within the workspace that the program brings.
  layer.RunForward(handle_, 0, whole_ / 2);
  layer.RunForward(handle_, 0, 0);
  before = FakeGpuRuns();
  layer.RunForward(handle_, 0, 0);
  layer.RunForward(handle_, 0, whole_ / 2);
  layer.RunForward(handle_, 0, whole_ / 4);
  layer.RunForward(handle_, 0, 2 * whole_);
  EXPECT_THAT(RunsSince(before),
              ElementsAre(Is(kImages, 0), Is(16, 1), Is(16, 1), Is(8, 1),
                          Is(8, 1), Is(8, 1), Is(8, 1), Is(kImages, 1)));
}

TEST_F(NoLimitTest, AsksForNoMoreThanItOffered) {
  setenv("FAKE_GPU_SUGGESTION", "0", 1);
  Layer layer(3, 8);
  layer.Ask(handle_);
  // The algorithm by whose name the division was offered.
  EXPECT_EQ(layer.SizeOf(handle_, 0), whole_ / 2);
  EXPECT_EQ(layer.SizeOf(handle_, 1), whole_);
}

TEST_F(NoLimitTest, NoLongerAppliesOnceALimitIsSet) {
  Layer layer(3, 9);
  EXPECT_EQ(layer.Ask(handle_), whole_);
  ASSERT_EQ(ucudnnSetWorkspaceLimit(handle_, whole_ / 4), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(layer.Ask(handle_), whole_ / 4);
}

class ArenaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasArena()) GTEST_SKIP() << "of one workspace for all convolutions";
  }
};

TEST_F(ArenaTest, IsDividedOnceForANamedNetwork) {
  UcudnnHandle_t handle;
  ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  Layer layers[] = {{3, 4}, {4, 4}, {4, 6}};
  const int waits = FakeGpuContextWaits();
  const int before = FakeGpuRuns();
  for (Layer& layer : layers) {
    const auto expected = Alone(layer);
    // The program asks about each convolution just before it runs it.
    EXPECT_EQ(layer.Ask(handle), 0U);
    layer.Reset();
    layer.Run(handle);
    ExpectEqual(layer, expected);
  }
  EXPECT_EQ(FakeGpuContextWaits() - waits, 1);
  EXPECT_GT(FakeGpuRuns(), before);
  // A convolution that is not in the network causes a new division.
  Layer other(5, 5);
  other.Ask(handle);
  other.Reset();
  other.Run(handle);
  EXPECT_GT(FakeGpuContextWaits() - waits, 1);
  EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
}

TEST_F(ArenaTest, DropsTheGraphsOfSegmentsThatMove) {
  UcudnnHandle_t handle;
  ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) {
      layer.Reset();
      layer.Run(handle);
      ExpectEqual(layer, expected);
    }
  };
  layer.Ask(handle);
  const int launches = FakeGpuGraphs().launches;
  run(4);
  EXPECT_EQ(FakeGpuGraphs().launches - launches, 3 * 3);
  Layer other(6, 7);
  other.Ask(handle);
  other.Reset();
  other.Run(handle);
  const int captures = FakeGpuGraphs().captures;
  run(3);
  EXPECT_EQ(FakeGpuGraphs().captures - captures, 3);
  EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
}

TEST_F(ArenaTest, KeepsThreadsApart) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      UcudnnHandle_t handle;
      ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
      Layer layer(3 + t % 2, 4);
      const auto expected = Alone(layer);
      for (int step = 0; step < 5; ++step) {  // captures, then replays
        layer.Ask(handle);
        layer.Reset();
        layer.Run(handle);
        ExpectEqual(layer, expected);
      }
      EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
