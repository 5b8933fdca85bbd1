// Convolutions that the drop-in handle captures and replays as graphs, and
// those that the program captures itself, on the fake GPU.

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "tests/client/dropin/handle/fake_layer.h"
#include "tests/support/fake_gpu/fake_gpu.h"
#include "ucudnn/handle.h"

namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::SizeIs;

constexpr int kOperations = 3;
constexpr int kRuns = 12;  // of a layer's operations, divided

bool Is(const char* variable, std::string_view value) {
  const char* const text = std::getenv(variable);
  return text != nullptr && text == value;
}

class GraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
  }
  void TearDown() override {
    cudnnDestroy(handle_);
    FakeGpuFailInstantiations(0);
  }

  // Runs the layer, whose results must be `expected`; returns the number of
  // graphs launched.
  int Launches(Layer& layer, const std::vector<std::vector<float>>& expected) {
    const int launches = FakeGpuGraphs().launches;
    const int runs = FakeGpuRuns();
    layer.Reset();
    layer.Run(handle_);
    ExpectEqual(layer, expected);
    EXPECT_THAT(RunsSince(runs), SizeIs(kRuns));
    return FakeGpuGraphs().launches - launches;
  }

  UcudnnHandle_t handle_;
};

class HandleGraphsTest : public GraphTest {
 protected:
  void SetUp() override {
    if (HasArena() || Unlimited() > 0 || Is("FAKE_GPU_GRAPHS", "0") ||
        std::getenv("UCUDNN_GRAPH_MEMORY") != nullptr) {
      GTEST_SKIP() << "of graphs without a bound that matters";
    }
    GraphTest::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) GraphTest::TearDown();
  }
};

TEST_F(HandleGraphsTest, ReplayConvolutionsThatComeAgain) {
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  layer.Ask(handle_);
  const int captures = FakeGpuGraphs().captures;
  EXPECT_EQ(Launches(layer, expected), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Launches(layer, expected), kOperations);
  }
  EXPECT_EQ(FakeGpuGraphs().captures - captures, kOperations);
}

TEST_F(HandleGraphsTest, LeaveTheProgramsStreamOnTheHandle) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  for (const CUstream theirs : {stream, CUstream{}, CU_STREAM_LEGACY}) {
    ASSERT_EQ(cudnnSetStream(handle_, theirs), CUDNN_STATUS_SUCCESS);
    Layer layer(3, 5);
    const auto expected = Alone(layer);
    layer.Ask(handle_);
    for (int i = 0; i < 3; ++i) Launches(layer, expected);
    cudaStream_t now = nullptr;
    ASSERT_EQ(cudnnGetStream(handle_, &now), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(now, theirs);
  }
  ASSERT_EQ(cudnnSetStream(handle_, nullptr), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(HandleGraphsTest, ServeLayersOfOneShape) {
  Layer one(3, 4);
  Layer two(3, 4);
  const auto expected = Alone(one);
  two.Ask(handle_);
  for (Layer* layer : {&one, &two}) layer->Ask(handle_);
  for (int i = 0; i < 2; ++i) {
    for (Layer* layer : {&one, &two}) Launches(*layer, expected);
  }
  for (Layer* layer : {&one, &two}) {
    EXPECT_EQ(Launches(*layer, expected), kOperations);
  }
}

TEST_F(HandleGraphsTest, DestroyTheirGraphsWithTheHandle) {
  const int alive = FakeGpuGraphs().alive;
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  layer.Ask(handle_);
  for (int i = 0; i < 2; ++i) Launches(layer, expected);
  EXPECT_EQ(FakeGpuGraphs().alive - alive, kOperations);
  ASSERT_EQ(cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(FakeGpuGraphs().alive, alive);
  ASSERT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
}

TEST_F(HandleGraphsTest, EnqueueWhatNeverComesAgain) {
  std::vector<std::vector<char>> elsewhere;
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  layer.Ask(handle_);  // measures, also by graphs
  layer.Reset();
  const FakeGpuGraphCounts before = FakeGpuGraphs();
  for (int i = 0; i < 260; ++i) {
    // The memory of the first workspaces stays in use.
    elsewhere.push_back(layer.MoveWorkspace());
    layer.Run(handle_);
  }
  EXPECT_EQ(FakeGpuGraphs().captures, before.captures);
  EXPECT_EQ(FakeGpuGraphs().launches, before.launches);
  // Given up.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Launches(layer, expected), 0);
}

TEST_F(HandleGraphsTest, EnqueueWhatCannotBeInstantiated) {
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  layer.Ask(handle_);
  EXPECT_EQ(Launches(layer, expected), 0);
  FakeGpuFailInstantiations(1);
  EXPECT_EQ(Launches(layer, expected), kOperations - 1);
  EXPECT_EQ(Launches(layer, expected), kOperations - 1);
}

TEST_F(HandleGraphsTest, EnqueueIntoTheProgramsOwnGraph) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cudnnSetStream(handle_, stream), CUDNN_STATUS_SUCCESS);
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  layer.Ask(handle_);
  for (int i = 0; i < 3; ++i) Launches(layer, expected);
  const FakeGpuGraphCounts before = FakeGpuGraphs();
  const int runs = FakeGpuRuns();
  layer.Reset();
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  layer.Run(handle_);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(FakeGpuRuns(), runs);
  EXPECT_EQ(FakeGpuGraphs().launches, before.launches);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream), CUDA_SUCCESS);
  EXPECT_THAT(RunsSince(runs), SizeIs(kRuns));
  EXPECT_THAT(RunsSince(runs), Each(Field("batch", &FakeGpuRun::batch, 8)));
  ExpectEqual(layer, expected);
  EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(cudnnSetStream(handle_, nullptr), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

class ArenaCaptureTest : public GraphTest {
 protected:
  void SetUp() override {
    if (!Is("UCUDNN_TOTAL_WORKSPACE_SIZE", "90000")) {
      GTEST_SKIP() << "of segments in a graph of the program";
    }
    GraphTest::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) GraphTest::TearDown();
  }
  // The layer's three operations, captured.
  CUgraphExec Captured(CUstream stream, Layer& layer) {
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_SUCCESS);
    layer.Run(handle_);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    CUgraphExec executable = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&executable, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    return executable;
  }
  // The sizes of the micro-batches that `call` ran.
  template <class Call>
  std::set<int> BatchesOf(const Call& call) {
    const int before = FakeGpuRuns();
    call();
    std::set<int> batches;
    for (const FakeGpuRun& run : RunsSince(before)) batches.insert(run.batch);
    return batches;
  }
};

TEST_F(ArenaCaptureTest, GivesItsSegmentsToTheProgramsGraph) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cudnnSetStream(handle_, stream), CUDNN_STATUS_SUCCESS);
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  layer.Ask(handle_);
  layer.Reset();
  layer.Run(handle_);
  // Planned, but without a segment.
  Layer late(5, 5);
  const auto late_expected = Alone(late);
  late.Ask(handle_);
  CUgraphExec graph = Captured(stream, layer);
  const auto replay = [&] {
    EXPECT_EQ(cuGraphLaunch(graph, stream), CUDA_SUCCESS);
  };
  layer.Reset();
  const auto divided = BatchesOf(replay);
  EXPECT_LT(*divided.rbegin(), kImages);
  ExpectEqual(layer, expected);
  // Whatever else would use the segments is left to cuDNN.
  CUgraphExec second = Captured(stream, layer);
  layer.Reset();
  EXPECT_EQ(BatchesOf([&] { (void)cuGraphLaunch(second, stream); }),
            std::set{kImages});
  ExpectEqual(layer, expected);
  layer.Reset();
  EXPECT_EQ(BatchesOf([&] { layer.Run(handle_); }), std::set{kImages});
  ExpectEqual(layer, expected);
  // So is what has no segment yet: the division stays as it is.
  const int waits = FakeGpuContextWaits();
  late.Reset();
  EXPECT_EQ(BatchesOf([&] { late.Run(handle_); }), std::set{kImages});
  ExpectEqual(late, late_expected);
  EXPECT_EQ(FakeGpuContextWaits(), waits);
  // The graph outlives the handle.
  ASSERT_EQ(cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS);
  layer.Reset();
  EXPECT_EQ(BatchesOf(replay), divided);
  ExpectEqual(layer, expected);
  ASSERT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
  for (const CUgraphExec made : {graph, second}) {
    EXPECT_EQ(cuGraphExecDestroy(made), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

class GraphMemoryTest : public GraphTest {
 protected:
  void SetUp() override {
    if (!Is("UCUDNN_GRAPH_MEMORY", "512KiB")) {
      GTEST_SKIP() << "of two graphs' memory";
    }
    GraphTest::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) GraphTest::TearDown();
  }
};

TEST_F(GraphMemoryTest, BoundsTheGraphsOfAllHandles) {
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  layer.Ask(handle_);
  // Four nodes of 64 KiB each.
  EXPECT_EQ(Launches(layer, expected), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Launches(layer, expected), 2);
  Layer other(3, 5);
  const auto other_expected = Alone(other);
  UcudnnHandle_t second;
  ASSERT_EQ(cudnnCreate(&second), CUDNN_STATUS_SUCCESS);
  std::swap(handle_, second);
  other.Ask(handle_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Launches(other, other_expected), 0);
  std::swap(handle_, second);
  EXPECT_EQ(cudnnDestroy(second), CUDNN_STATUS_SUCCESS);
}

class WithoutGraphsTest : public GraphTest {
 protected:
  void SetUp() override {
    if (!Is("FAKE_GPU_GRAPHS", "0")) {
      GTEST_SKIP() << "of a driver that cannot capture";
    }
    GraphTest::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) GraphTest::TearDown();
  }
};

TEST_F(WithoutGraphsTest, EnqueueEveryMicroBatch) {
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  layer.Ask(handle_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Launches(layer, expected), 0);
}

}  // namespace
