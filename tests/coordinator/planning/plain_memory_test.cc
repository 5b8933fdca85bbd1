#include "coordinator/planning/plain_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/memory/vdnn.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kModelledKind = "Fast/2u/1GiB/none-1.0";

NetworkRecord ResNetRecord() {
  NetworkRecord network;
  network.name = "resnet18";
  network.format = NetworkFormat::kOnnx;
  network.source =
      ReadNetworkContents(test::DataPath("onnx/resnet18.onnx"), {}).value();
  network.hash = "h";
  return network;
}

JobRequest RequestOfKinds(std::vector<std::string> kinds) {
  JobRequest request;
  request.network = "resnet18";
  request.batch = BatchSize(16);
  request.device_kinds = std::move(kinds);
  return request;
}

std::map<std::string, DeviceModel> ModelsOfKind() {
  return {{kModelledKind, DeviceModelPreset("K40").value()}};
}

TEST(PlainMemoryTest, IsWhatAPlanNeedsThatKeepsEverything) {
  const NetworkRecord network = ResNetRecord();
  const Graph graph =
      ParseGraph(network.source, network.name, BatchSize(16), network.name)
          .value();
  TrainingGraph training = BuildTrainingGraph(graph, {}).value();
  ASSERT_TRUE(SetDevice(DeviceModelPreset("K40").value(), &training));
  const std::vector<Bytes> live = LiveBytes(training, BatchSize(16));
  ASSERT_EQ(live.size(), 17U);
  for (const std::int64_t batch : {1, 4, 16}) {
    training.batch = BatchSize(batch);
    MemoryRequest request;
    request.budget = 100_GiB;
    const auto plan = PlanBaseline(training, request);
    ASSERT_TRUE(plan) << plan.error().message;
    const Bytes least = live[static_cast<std::size_t>(batch)];
    EXPECT_LE(least, plan->load);
    EXPECT_GE(least, plan->load * 99 / 100);
  }
}

TEST(PlainMemoryTest, IsKnownOfModelsOnKindsWithADeviceModel) {
  const PlainMemory memory = PlainMemoryOf(
      ResNetRecord(), RequestOfKinds({kModelledKind, kModelledKind}),
      ModelsOfKind());
  EXPECT_THAT(memory.unknown, IsEmpty());
  EXPECT_EQ(memory.devices.at(kModelledKind),
            ModelsOfKind()[kModelledKind].memory);
  EXPECT_EQ(memory.live.size(), 17U);
  EXPECT_GT(memory.live[16], memory.live[8]);
  EXPECT_THAT(PlainInputsText(memory, ResNetRecord()),
              HasSubstr(kModelledKind));
}

TEST(PlainMemoryTest, SaysWhatIsNotKnown) {
  const PlainMemory some = PlainMemoryOf(
      ResNetRecord(), RequestOfKinds({kModelledKind, "Other"}), ModelsOfKind());
  EXPECT_EQ(some.unknown, "there is no device model of Other");
  EXPECT_EQ(some.devices.size(), 1U);
  NetworkRecord csv = ResNetRecord();
  csv.format = NetworkFormat::kCsv;
  const PlainMemory none =
      PlainMemoryOf(csv, RequestOfKinds({kModelledKind}), ModelsOfKind());
  EXPECT_THAT(none.unknown, HasSubstr("convolutions alone"));
  EXPECT_EQ(PlainInputsText(none, csv), "");
}

}  // namespace
}  // namespace ucudnn
