// Gradients in host and GPU memory, summed over real MPI ranks; the GPU is a
// fake driver that delays all work until it is waited for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

class GradientsTest : public ::testing::Test {
 protected:
  // Each rank's output; the last `dead` ranks write nothing.
  std::vector<Json> Job(int ranks, const std::string& what,
                        const std::string& apart = "", int dead = 0) {
    std::vector<std::string> command = {test::ProgramPath("gradient_ranks"),
                                        folder_.path(), what};
    if (!apart.empty()) command.push_back(apart);
    // A rank that dies or gives up does not end the others.
    const RankedRun run = RunRanks(
        ranks, command, {"OMPI_MCA_orte_enable_recovery=1"}, folder_ / "log");
    std::vector<Json> results;
    for (int r = 0; r < ranks - dead; ++r) {
      results.push_back(
          Json::parse(test::FileText(folder_ / fmt::format("rank{}.json", r)),
                      nullptr, false));
      if (!results.back().is_object()) {
        ADD_FAILURE() << "rank " << r << " wrote nothing: " << run.output;
        results.back() = Json::object();
      }
    }
    return results;
  }

  // All sums are correct, and bitwise equal on all ranks.
  void ExpectRight(const std::vector<Json>& ranks) {
    for (const Json& rank : ranks) {
      ASSERT_TRUE(rank.contains("sums")) << rank.dump(2);
      EXPECT_EQ(rank["sums"].size(), 8U) << rank.dump(2);
      for (const Json& sum : rank["sums"]) {
        EXPECT_EQ(sum["right"], true) << sum.dump();
      }
      EXPECT_EQ(rank["sums"], ranks[0]["sums"]);
      EXPECT_EQ(rank["held"], 0) << "memory was not given back";
    }
  }

  test::TemporaryFolder folder_;
};

TEST_F(GradientsTest, AreSummedInHostMemory) {
  for (const int size : {1, 2, 3, 4}) {
    const auto ranks = Job(size, "host");
    ExpectRight(ranks);
    EXPECT_EQ(ranks[0]["is_gpu_memory"], false);
    EXPECT_EQ(ranks[0]["window"], true);
  }
}

TEST_F(GradientsTest, AreSummedByRanksWithoutSharedMemory) {
  for (const char* what : {"host", "staged", "mixed", "zero"}) {
    const auto ranks = Job(3, what, "apart");
    ExpectRight(ranks);
    EXPECT_EQ(ranks[0]["window"], false);
    EXPECT_FALSE(ranks[0]["calls"].contains("to_window"));
  }
}

TEST_F(GradientsTest, AreSummedInGpuMemoryThroughTheHost) {
  const auto ranks = Job(3, "staged");
  ExpectRight(ranks);
  EXPECT_EQ(ranks[0]["is_gpu_memory"], true);
  EXPECT_EQ(ranks[0]["calls"]["pinned"], 2) << "once for all sums";
  EXPECT_EQ(ranks[0]["calls"]["registered"], 1) << "once for all sums";
  EXPECT_GT(ranks[0]["calls"]["to_window"], 10);
  EXPECT_EQ(ranks[0]["calls"]["default_stream"], 7)
      << "of each sum of any: none names a stream";
  EXPECT_EQ(ranks[0]["calls"]["stream"], 1) << "beside the program's own";
}

TEST_F(GradientsTest, GoThroughMpiIfOneRanksGpuCannotUseSharedMemory) {
  const auto ranks = Job(2, "no_shared");
  ExpectRight(ranks);
  EXPECT_EQ(ranks[1]["calls"]["registered"], 1) << "not tried again";
  for (const Json& rank : ranks) {
    EXPECT_FALSE(rank["calls"].contains("to_window"));
  }
}

TEST_F(GradientsTest, AreBitwiseEqualInAnyMemory) {
  const auto host = Job(3, "host");
  EXPECT_EQ(host[0]["sums"], Job(3, "staged")[0]["sums"]);
  EXPECT_EQ(host[0]["sums"], Job(3, "mixed")[0]["sums"]);
  EXPECT_EQ(Job(3, "host", "apart")[0]["sums"],
            Job(3, "staged", "apart")[0]["sums"]);
}

TEST_F(GradientsTest, MayBeInDifferentMemory) {
  const auto ranks = Job(2, "mixed");
  ExpectRight(ranks);
  EXPECT_EQ(ranks[0]["is_gpu_memory"], false);
  EXPECT_EQ(ranks[1]["is_gpu_memory"], true);
}

TEST_F(GradientsTest, OfARankWithoutImagesCountAsZeros) {
  ExpectRight(Job(2, "zero"));
}

TEST_F(GradientsTest, OfDifferentCountsAreAnErrorOnAllRanks) {
  for (const Json& rank : Job(3, "unlike_counts")) {
    EXPECT_EQ(rank["code"], "INVALID_ARGUMENT");
    EXPECT_THAT(rank["message"].get<std::string>(),
                HasSubstr("ranks have from 0 to 2 gradients"));
    EXPECT_EQ(rank["usable"], true);
  }
}

TEST_F(GradientsTest, AreAnErrorOnAllRanksIfOneHasNoPinnedMemory) {
  for (const Json& rank : Job(2, "no_pinned")) {
    EXPECT_EQ(rank["code"], "RESOURCE_EXHAUSTED") << rank.dump(2);
    EXPECT_THAT(rank["message"].get<std::string>(),
                HasSubstr("rank 1: cuMemHostAlloc"));
    EXPECT_EQ(rank["usable"], true);
  }
}

TEST_F(GradientsTest, FailInTimeIfAStreamNeverEnds) {
  const auto ranks = Job(2, "stuck");
  for (const Json& rank : ranks) {
    EXPECT_EQ(rank["code"], "DEADLINE_EXCEEDED") << rank.dump(2);
    EXPECT_EQ(rank["usable"], false);
  }
  EXPECT_THAT(ranks[0]["message"].get<std::string>(),
              HasSubstr("the ranks did not agree in time"));
  EXPECT_THAT(ranks[1]["message"].get<std::string>(),
              HasSubstr("the work in the gradients' stream"));
}

TEST_F(GradientsTest, FailInTimeIfARankDiesDuringTheSum) {
  for (const char* apart : {"", "apart"}) {
    for (const Json& rank : Job(3, "dies", apart, 1)) {
      EXPECT_EQ(rank["code"], "DEADLINE_EXCEEDED") << rank.dump(2);
      EXPECT_EQ(rank["usable"], false);
      EXPECT_GT(rank["sums"].size(), 0U);
    }
  }
}

constexpr int kNccl = 0;  // SumMethod

TEST_F(GradientsTest, AreSummedByNcclIfEachRankHasAGpuOfItsOwn) {
  const auto ranks = Job(3, "nccl");
  ExpectRight(ranks);
  for (const Json& rank : ranks) {
    EXPECT_THAT(rank["methods"], ::testing::Contains(kNccl).Times(7))
        << "all but the empty sum";
    EXPECT_FALSE(rank["calls"].contains("to_host")) << "none on the host";
  }
}

TEST_F(GradientsTest, OfARankWithoutImagesAreNotReadByNccl) {
  const auto ranks = Job(2, "nccl_zero");
  ExpectRight(ranks);
  EXPECT_THAT(ranks[0]["methods"], ::testing::Contains(kNccl));
}

TEST_F(GradientsTest, GoThroughTheHostIfRanksHaveTheSameGpu) {
  const auto ranks = Job(2, "nccl_shared_gpu");
  ExpectRight(ranks);
  for (const Json& rank : ranks) {
    EXPECT_THAT(rank["methods"], ::testing::Not(::testing::Contains(kNccl)));
    EXPECT_EQ(rank["why_not_nccl"], "ranks 0 and 1 have the same GPU");
  }
}

TEST_F(GradientsTest, GoThroughTheHostIfARankHasThemThere) {
  const auto ranks = Job(2, "nccl_mixed");
  ExpectRight(ranks);
  EXPECT_THAT(ranks[0]["methods"], ::testing::Not(::testing::Contains(kNccl)));
}

TEST_F(GradientsTest, GoThroughTheHostIfNcclRefuses) {
  const auto ranks = Job(2, "nccl_refuses");
  ExpectRight(ranks);
  for (const Json& rank : ranks) {
    EXPECT_THAT(rank["methods"], ::testing::Not(::testing::Contains(kNccl)));
    EXPECT_THAT(rank["why_not_nccl"].get<std::string>(), HasSubstr("NCCL"));
  }
  EXPECT_EQ(ranks[0]["why_not_nccl"], ranks[1]["why_not_nccl"]);
}

TEST_F(GradientsTest, FailInTimeIfNcclFailsDuringASum) {
  const auto ranks = Job(2, "nccl_fails");
  EXPECT_EQ(ranks[0]["code"], "DEADLINE_EXCEEDED") << ranks[0].dump(2);
  EXPECT_EQ(ranks[1]["code"], "UNAVAILABLE") << ranks[1].dump(2);
  EXPECT_EQ(ranks[1]["message"], "NCCL: a sum: remote error");
  for (const Json& rank : ranks) EXPECT_EQ(rank["usable"], false);
}

TEST_F(GradientsTest, FailInTimeIfARankOfNcclDies) {
  for (const Json& rank : Job(3, "nccl_dies", "", 1)) {
    EXPECT_EQ(rank["code"], "DEADLINE_EXCEEDED") << rank.dump(2);
    EXPECT_EQ(rank["usable"], false);
    EXPECT_GT(rank["sums"].size(), 0U);
  }
}

TEST_F(GradientsTest, AreSummedByWhatIsEnqueued) {
  const auto ranks = Job(3, "nccl_enqueued");
  ExpectRight(ranks);
  for (const Json& rank : ranks) {
    EXPECT_FALSE(rank["calls"].contains("to_host")) << "none on the host";
  }
}

TEST_F(GradientsTest, EndWhatIsEnqueuedIfARankCannotGoOn) {
  for (const Json& rank : Job(3, "nccl_enqueued_alarm")) {
    EXPECT_EQ(rank["code"], "CANCELLED") << rank.dump(2);
    EXPECT_EQ(rank["usable"], true);
  }
}

TEST_F(GradientsTest, FailInTimeIfAStreamWithNcclNeverEnds) {
  for (const Json& rank : Job(2, "nccl_stuck")) {
    EXPECT_EQ(rank["code"], "DEADLINE_EXCEEDED") << rank.dump(2);
    EXPECT_EQ(rank["usable"], false);
  }
}

}  // namespace
}  // namespace ucudnn
