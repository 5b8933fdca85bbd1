// Plans whose total workspace is divided among kernels that may run at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "coordinator/planning/planner.h"
#include "solver/ilp/ilp.h"
#include "solver/joint.h"
#include "solver/micro_batch/pareto.h"
#include "solver/micro_batch/wr.h"
#include "tests/support/cbc_ilp.h"
#include "tests/support/drawn_points.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using Kind = Concurrency::Kind;

constexpr const char* kGpu = "Drawn/1u/1GiB/none-1.0";

// A stored model with measurements of all of its kernels.
struct StoredModel {
  NetworkRecord record;
  Network network;
  KindProfiles profiles;
};

StoredModel ModelOf(const std::string& name, std::int64_t most_batch) {
  StoredModel model;
  model.record.name = name;
  model.record.format = NetworkFormat::kOnnx;
  model.record.source =
      ReadFile(test::DataPath("onnx/" + name + ".onnx"), 64_MiB).value();
  model.network = NetworkOf(
      ParseGraph(model.record.source, name, BatchSize(1), name).value());
  for (const Kernel& kernel :
       KernelsOf(model.network, Precision::kFp32, Layout::kNchw)) {
    model.profiles[kGpu][ToString(kernel.problem)] =
        test::DrawnPoints(kernel.problem, most_batch);
  }
  return model;
}

JobRequest RequestOf(const StoredModel& model, std::int64_t batch, Bytes total,
                     std::size_t ranks = 1) {
  JobRequest request;
  request.network = model.record.name;
  request.batch = BatchSize(batch);
  request.device_kinds.assign(ranks, kGpu);
  request.total_workspace = total;
  request.concurrent = true;
  return request;
}

Result<JobPlan> PlanOf(const StoredModel& model, const JobRequest& request) {
  std::optional<Concurrency> concurrency;
  if (request.concurrent) {
    UCUDNN_ASSIGN_OR_RETURN(
        concurrency, ConcurrencyOf(model.record, model.network, request));
  }
  return MakePlan(model.network, request, model.profiles, {}, concurrency);
}

// Equations 1 to 4 of section III-C, with equation 2 for each largest set of
// kernels that may run at once.
class Programme {
 public:
  Programme(const Profile& profile, const Concurrency& concurrency,
            const WrRequest& request)
      : profile_(profile), nodes_(concurrency.nodes), request_(request) {}

  // The least time of what is below `node`. What runs in a row outside of any
  // Parallel has a programme of its own, as nothing binds it to the rest.
  double Solve(std::size_t node) {
    double time = 0;
    if (nodes_[node].kind == Kind::kSerial) {
      for (const std::size_t part : nodes_[node].parts) time += Solve(part);
      return time;
    }
    ilp_ = {};
    for (std::vector<IlpTerm>& set : Add(node)) {
      ilp_.rows.push_back({.terms = std::move(set),
                           .most = request_.workspace_limit.count() /
                                   kSegmentAlignment.count()});
    }
    const auto judged = test::MakeCbcSolver()->Solve(ilp_, 100'000);
    EXPECT_TRUE(judged) << judged.error().message;
    if (!judged) return 0;
    EXPECT_TRUE(judged->optimal);
    return judged->cost;
  }

 private:
  // The workspaces of kernels that may all run at once, in units of the
  // alignment: a set for each choice of one part of every Serial.
  using Sets = std::vector<std::vector<IlpTerm>>;

  Sets Add(std::size_t at) {
    const Concurrency::Node& node = nodes_[at];
    if (node.kind == Kind::kLeaf) return {AddKernel(node.leaf)};
    Sets sets;
    for (const std::size_t part : node.parts) {
      const Sets added = Add(part);
      if (node.kind == Kind::kSerial || sets.empty()) {
        sets.insert(sets.end(), added.begin(), added.end());
        continue;
      }
      Sets both;
      for (const auto& a : sets) {
        for (const auto& b : added) {
          both.push_back(a);
          both.back().insert(both.back().end(), b.begin(), b.end());
        }
      }
      sets = std::move(both);
    }
    return sets;
  }

  std::vector<IlpTerm> AddKernel(std::size_t kernel) {
    IlpRow one{.terms = {}, .least = 1, .most = 1};
    std::vector<IlpTerm> workspace;
    const auto front =
        SolvePareto(profile_.kernels[kernel].points, request_).value();
    for (const FrontPoint& point : front.points()) {
      one.terms.push_back({ilp_.variables.size(), 1});
      workspace.push_back({ilp_.variables.size(),
                           RoundUp(point.workspace, kSegmentAlignment).count() /
                               kSegmentAlignment.count()});
      ilp_.variables.push_back({.cost = point.time.count()});
    }
    ilp_.rows.push_back(std::move(one));
    return workspace;
  }

  const Profile& profile_;
  const std::vector<Concurrency::Node>& nodes_;
  const WrRequest request_;
  IlpProblem ilp_;
};

class ConcurrentPlanTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ConcurrentPlanTest, HasTheOptimumOfAGeneralSolver) {
  const StoredModel model = ModelOf(GetParam(), 16);
  for (const Bytes total : {1_MiB, 3_MiB, 6_MiB, 10_MiB}) {
    const JobRequest request = RequestOf(model, 16, total);
    const auto plan = PlanOf(model, request);
    ASSERT_TRUE(plan) << plan.error().message;
    const Status valid = Validate(*plan);
    ASSERT_TRUE(valid) << valid.error().message;
    const WorkspacePlan& workspace = plan->ranks[0].workspace;
    EXPECT_LE(workspace.total_workspace, total);
    EXPECT_TRUE(plan->optimal);
    const auto concurrency =
        ConcurrencyOf(model.record, model.network, request).value();
    const Profile profile =
        ProfileOf(model.network, request, model.profiles, kGpu).value();
    for (const auto& [a, b] : ConcurrentPairs(concurrency)) {
      const KernelPlan& one = workspace.kernels[a];
      const KernelPlan& other = workspace.kernels[b];
      EXPECT_TRUE(*one.offset + one.workspace <= *other.offset ||
                  *other.offset + other.workspace <= *one.offset)
          << KernelName(one) << " and " << KernelName(other);
      EXPECT_EQ(one.offset->count() % kSegmentAlignment.count(), 0);
      EXPECT_EQ(other.offset->count() % kSegmentAlignment.count(), 0);
    }
    const WrRequest alone{request.batch, total, request.policy};
    EXPECT_EQ(Programme(profile, concurrency, alone)
                  .Solve(concurrency.nodes.size() - 1),
              static_cast<double>(plan->predicted.count()));
    // Each kernel with an equal part.
    const auto parts = static_cast<std::int64_t>(workspace.kernels.size());
    const auto equal = SolveWr(
        profile, {request.batch, Bytes(total.count() / parts / 256 * 256),
                  request.policy});
    ASSERT_TRUE(equal) << equal.error().message;
    EXPECT_LT(plan->predicted, equal->total_time);
    // All of it for each, one after another.
    JobRequest shared = request;
    shared.concurrent = false;
    EXPECT_GE(plan->predicted, PlanOf(model, shared)->predicted);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ConcurrentPlanTest,
                         ::testing::Values("googlenet", "resnet50"),
                         [](const auto& test) { return test.param; });

TEST(ConcurrentPlansTest, AreThoseOfOneArenaOnAChain) {
  for (const char* name : {"alexnet", "vgg16"}) {
    const StoredModel model = ModelOf(name, 12);
    for (const std::size_t ranks : {1U, 3U}) {
      for (std::int64_t kib = 0; kib <= 6'000; kib += 600) {
        JobRequest request = RequestOf(model, 12, Bytes(1 + kib * 1024), ranks);
        JobPlan divided = PlanOf(model, request).value();
        request.concurrent = false;
        divided.request = request;
        EXPECT_EQ(divided, PlanOf(model, request).value()) << kib;
      }
    }
  }
}

TEST(ConcurrentPlansTest, ShareABatchByWhatDividedKernelsTake) {
  const StoredModel model = ModelOf("googlenet", 12);
  const JobRequest request = RequestOf(model, 12, 4_MiB, 2);
  const JobPlan plan = PlanOf(model, request).value();
  JobRequest alone = RequestOf(model, plan.ranks[0].batch.count(), 4_MiB);
  EXPECT_EQ(PlanOf(model, alone)->ranks[0].workspace, plan.ranks[0].workspace);
  EXPECT_TRUE(Validate(plan));
}

TEST(ConcurrentPlansTest, NeedTheNetworksGraphAndATotal) {
  StoredModel model = ModelOf("alexnet", 1);
  JobRequest request = RequestOf(model, 1, 1_MiB);
  model.record.format = NetworkFormat::kCsv;
  const auto refused = PlanOf(model, request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message,
              HasSubstr("'alexnet' is known by its convolutions alone"));
  request.total_workspace = 0_B;
  EXPECT_THAT(Canonical(request).error().message,
              HasSubstr("concurrent is true; it is accepted with "
                        "total_workspace_bytes"));
  request.total_workspace = 1_MiB;
  EXPECT_TRUE(Canonical(request));
  request.memory.emplace();
  EXPECT_FALSE(Canonical(request));
}

TEST(ConcurrentPlansTest, AreOfAnotherRequest) {
  const StoredModel model = ModelOf("alexnet", 1);
  JobRequest request = RequestOf(model, 1, 1_MiB);
  const std::string divided = InputsText(model.network, request, {});
  request.concurrent = false;
  EXPECT_NE(InputsText(model.network, request, {}), divided);
}

}  // namespace
}  // namespace ucudnn
