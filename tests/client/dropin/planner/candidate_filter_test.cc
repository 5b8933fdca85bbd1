#include "client/dropin/planner/candidate_filter.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "device/forwarding_device.h"
#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

TEST(CandidateFilterTest, HidesAlgorithms) {
  FakeDevice device;
  CandidateFilter filter(device, [](BatchSize, auto* listed) -> Status {
    listed->erase(listed->begin());
    return {};
  });
  const auto listed = filter.ListAlgorithms({}, BatchSize(1));
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().algorithm.name, "frugal");
}

// Lists several batches in one call, as GPUs do on several threads.
class ListsTogether : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::vector<Result<std::vector<Candidate>>> ListAlgorithmsOfEach(
      const ConvProblem& problem, std::span<const BatchSize> batches) override {
    ++calls;
    return device_.ListAlgorithmsOfEach(problem, batches);
  }
  int calls = 0;
};

TEST(CandidateFilterTest, ListsSeveralBatchesAsTheDeviceDoes) {
  FakeDevice fake;
  ListsTogether device(fake);
  CandidateFilter filter(device, [](BatchSize batch, auto* listed) -> Status {
    if (batch == BatchSize(3)) return Fail(Code::kDataLoss, "broken");
    if (batch == BatchSize(2)) listed->erase(listed->begin());
    return {};
  });
  const std::vector<BatchSize> batches = {BatchSize(1), BatchSize(2),
                                          BatchSize(3)};
  const auto lists = filter.ListAlgorithmsOfEach({}, batches);
  EXPECT_EQ(device.calls, 1);
  ASSERT_EQ(lists.size(), 3U);
  ASSERT_TRUE(lists[0]);
  EXPECT_EQ(lists[0]->size(), 2U);
  ASSERT_TRUE(lists[1]);
  EXPECT_EQ(lists[1]->size(), 1U);
  ASSERT_FALSE(lists[2]);
  EXPECT_EQ(lists[2].error().code, Code::kDataLoss);
}

TEST(CandidateFilterTest, IsMeasuredLikeTheDevice) {
  FakeDevice device;
  device.set_cache(1_MiB);
  CandidateFilter filter(device, [](BatchSize, auto*) { return Status(); });
  EXPECT_EQ(filter.cache(), 1_MiB);
  ASSERT_TRUE(filter.TimeEnqueued([] { return Status(); }));
  EXPECT_EQ(device.timed_enqueued(), 1);
}

}  // namespace
}  // namespace ucudnn
