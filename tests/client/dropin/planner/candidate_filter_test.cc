#include "client/dropin/planner/candidate_filter.h"

#include <gtest/gtest.h>

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
