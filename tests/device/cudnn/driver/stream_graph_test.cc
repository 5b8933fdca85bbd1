#include "device/cudnn/driver/stream_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/cudnn/cudnn_fake.h"

namespace ucudnn::cudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StreamGraphTest : public ::testing::Test {
 protected:
  StreamGraphTest() { ResetFake(); }
  ~StreamGraphTest() override {
    EXPECT_EQ(Fake().graphs_alive, 0) << "a graph was not destroyed";
    EXPECT_EQ(Fake().captures_open, 0) << "a capture was not ended";
  }
  Result<std::unique_ptr<StreamGraph>> Capture(
      std::unique_ptr<StreamGraph> replaced = nullptr) {
    return StreamGraph::Capture(
        driver_, stream_, [] { return Status(); }, std::move(replaced));
  }
  Code CodeOfCapture() {
    const auto graph = Capture();
    return graph ? Code::kOk : graph.error().code;
  }

  DriverApi driver_ = FakeDriver();
  CUstream stream_ = reinterpret_cast<CUstream>(0x10);
};

TEST_F(StreamGraphTest, RecordsWhatIsEnqueuedAndLaunchesIt) {
  int captures = 0;
  const auto graph = StreamGraph::Capture(driver_, stream_, [&]() -> Status {
    captures = Fake().captures_open;
    return {};
  });
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(captures, 1);
  EXPECT_EQ((*graph)->nodes(), 3U);
  const auto other = reinterpret_cast<CUstream>(0x20);
  EXPECT_EQ((*graph)->Launch(other), CUDA_SUCCESS);
  EXPECT_THAT(Fake().launches, ElementsAre(other));
}

TEST_F(StreamGraphTest, SaysHowMuchMemoryItTook) {
  Fake().graph_memory = 1 << 20;
  const auto graph = Capture();
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ((*graph)->memory(), 1_MiB);
  // Other threads allocate meanwhile.
  Fake().graph_memory = 512 << 20;
  const auto next = Capture();
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_LT((*next)->memory(), 5_MiB);
}

TEST_F(StreamGraphTest, UpdatesTheGraphThatItReplaces) {
  auto graph = Capture();
  ASSERT_TRUE(graph) << graph.error().message;
  const StreamGraph* const known = graph->get();
  auto updated = Capture(*std::move(graph));
  ASSERT_TRUE(updated) << updated.error().message;
  EXPECT_EQ(updated->get(), known);
  EXPECT_EQ(Fake().updates, 1);
  Fake().update_result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  EXPECT_TRUE(Capture(*std::move(updated)));
  EXPECT_EQ(Fake().updates, 2);
}

TEST_F(StreamGraphTest, EndsTheCaptureWhenEnqueueingFails) {
  const auto graph = StreamGraph::Capture(driver_, stream_, []() -> Status {
    return Fail(Code::kInternal, "no such kernel");
  });
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message, HasSubstr("no such kernel"));
}

TEST_F(StreamGraphTest, ReportsTheDriversErrors) {
  Fake().capture_result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  EXPECT_EQ(CodeOfCapture(), Code::kInternal);
  Fake().capture_result = CUDA_SUCCESS;
  Fake().instantiate_result = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(CodeOfCapture(), Code::kResourceExhausted);
  Fake().instantiate_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(CodeOfCapture(), Code::kDataLoss);
}

TEST_F(StreamGraphTest, RefusesToCaptureNothing) {
  Fake().captured_nodes = 0;
  EXPECT_EQ(CodeOfCapture(), Code::kFailedPrecondition);
}

TEST_F(StreamGraphTest, IsUnimplementedIfTheDriverLacksAFunction) {
  for (void (*const remove)(DriverApi*) :
       {+[](DriverApi* api) { api->StreamBeginCapture = nullptr; },
        +[](DriverApi* api) { api->GraphInstantiate = nullptr; },
        +[](DriverApi* api) { api->GraphExecUpdate = nullptr; },
        +[](DriverApi* api) { api->GraphLaunch = nullptr; }}) {
    driver_ = FakeDriver();
    EXPECT_TRUE(HasGraphs(driver_));
    remove(&driver_);
    EXPECT_FALSE(HasGraphs(driver_));
    EXPECT_EQ(CodeOfCapture(), Code::kUnimplemented);
  }
}

}  // namespace
}  // namespace ucudnn::cudnn
