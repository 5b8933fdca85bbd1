#include "solver/check/validate_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "solver/check/validate.h"
#include "tests/solver/assign/assign_instances.h"
#include "tests/solver/instances.h"

namespace ucudnn {
namespace {

using test::Point;
using test::ProblemOf;
using test::TableOf;
using ::testing::HasSubstr;

// A batch of 6 on three GPUs: 4 in 30 on the first, 2 in 20 on the second,
// while the third is left out; two communicate for 5.
AssignProblem ThreeGpus() {
  AssignProblem problem =
      ProblemOf(6, {TableOf({{2, 10}, {4, 30}, {6, 50}}),
                    TableOf({{2, 20}, {4, 40}}), TableOf({{2, 35}})});
  problem.communication = {Nanoseconds(0), Nanoseconds(5), Nanoseconds(9)};
  return problem;
}

Assignment FourAndTwo() {
  Assignment assignment;
  assignment.shares = {{BatchSize(4), Nanoseconds(30)},
                       {BatchSize(2), Nanoseconds(20)},
                       {BatchSize(0), Nanoseconds(0)}};
  assignment.gpus_used = 2;
  assignment.total_time = Nanoseconds(50);
  assignment.communication = Nanoseconds(5);
  assignment.makespan = Nanoseconds(35);
  assignment.lower_bound = Nanoseconds(35);
  return assignment;
}

TEST(ValidateAssignmentTest, AcceptsAnAssignmentThatAddsUp) {
  const Status status = ValidateAssignment(FourAndTwo(), ThreeGpus());
  EXPECT_TRUE(status) << status.error().message;
}

TEST(ValidateAssignmentTest, NamesTheBrokenRule) {
  struct Case {
    std::function<void(Assignment&, AssignProblem&)> spoil;
    const char* why;
  };
  const std::vector<Case> cases = {
      {[](auto& a, auto&) { a.shares.pop_back(); }, "2 shares for 3 GPUs"},
      {[](auto& a, auto&) { a.shares[0].time = Nanoseconds(29); },
       "GPU 0: batch 4 in 29 ns was not measured"},
      {[](auto& a, auto&) { a.shares[1].batch = BatchSize(3); },
       "GPU 1: batch 3 in 20 ns was not measured"},
      {[](auto& a, auto&) { a.shares[2].time = Nanoseconds(1); },
       "GPU 2: left out, but takes 1 ns"},
      {[](auto&, auto& p) { p.gpus[0].max_batch = BatchSize(3); },
       "GPU 0: batch 4 is not within its limits"},
      {[](auto&, auto& p) { p.gpus[1].memory_limit = Bytes(1); },
       "GPU 1: batch 2 is not within its limits"},
      {[](auto&, auto& p) { p.gpus[1].allowed = {BatchSize(4)}; },
       "GPU 1: batch 2 is not within its limits"},
      {[](auto&, auto& p) { p.batch = BatchSize(7); }, "sum to 6, not to 7"},
      {[](auto& a, auto&) { a.gpus_used = 3; }, "2 GPUs take part, not 3"},
      {[](auto& a, auto&) { a.total_time = Nanoseconds(49); },
       "take 50 ns in all, not 49"},
      {[](auto& a, auto&) { a.communication = Nanoseconds(9); },
       "2 GPUs communicate for 5 ns, not 9"},
      {[](auto&, auto& p) { p.communication.clear(); },
       "communicate for 0 ns, not 5"},
      {[](auto& a, auto&) { a.makespan = Nanoseconds(30); },
       "the makespan is 35 ns, not 30"},
      {[](auto& a, auto&) { a.lower_bound = Nanoseconds(34); },
       "the bound is 34 ns, the makespan 35"},
      {[](auto&, auto& p) {
         p.tables[2][0].time = Nanoseconds(20);
         p.communication[2] = Nanoseconds(14);
       },
       "35 ns, but 34 ns evenly split"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Assignment assignment = FourAndTwo();
    AssignProblem problem = ThreeGpus();
    cases[i].spoil(assignment, problem);
    const Status status = ValidateAssignment(assignment, problem);
    ASSERT_FALSE(status) << "case " << i;
    EXPECT_EQ(status.error().code, Code::kInternal);
    EXPECT_THAT(status.error().message, HasSubstr(cases[i].why)) << i;
  }
}

TEST(ValidateAssignmentTest, ChecksTheEvenSplit) {
  const AssignProblem problem = ThreeGpus();  // 2 each: 10, 20, 35 and 9
  EXPECT_TRUE(ValidateEvenSplit(Nanoseconds(44), problem));
  EXPECT_THAT(ValidateEvenSplit(Nanoseconds(35), problem).error().message,
              HasSubstr("takes 44 ns, not 35"));
  EXPECT_FALSE(ValidateEvenSplit(std::nullopt, problem));
  AssignProblem odd = problem;
  odd.batch = BatchSize(7);
  EXPECT_TRUE(ValidateEvenSplit(std::nullopt, odd));
  EXPECT_FALSE(ValidateEvenSplit(Nanoseconds(44), odd));
}

std::vector<ShareExplanation> WhyFourAndTwo() {
  return {{Binding::kSlowest, {}, "the slowest"},
          {Binding::kNextTooSlow,
           {BatchSize(4), Nanoseconds(40), Bytes(4)},
           "its next batch is too slow"},
          {Binding::kLeftTooSlow,
           {BatchSize(2), Nanoseconds(35), Bytes(2)},
           "left out"}};
}

TEST(ValidateAssignmentTest, AcceptsExplanationsThatFollowFromTheTables) {
  const Status status =
      ValidateExplanations(WhyFourAndTwo(), FourAndTwo(), ThreeGpus());
  EXPECT_TRUE(status) << status.error().message;
}

TEST(ValidateAssignmentTest, NamesTheWrongExplanation) {
  struct Case {
    std::function<void(std::vector<ShareExplanation>&, AssignProblem&)> spoil;
    const char* why;
  };
  const std::vector<Case> cases = {
      {[](auto& e, auto&) { e.pop_back(); }, "2 explanations for 3 GPUs"},
      {[](auto& e, auto&) { e[0].binding = Binding::kSumReached; },
       "GPU 0: held by slowest, not by sum_reached"},
      {[](auto& e, auto&) { e[1].other.batch = BatchSize(6); },
       "GPU 1: refers to batch 6, not to 4"},
      {[](auto& e, auto&) { e[2].text.clear(); }, "GPU 2: has no text"},
      {[](auto&, auto& p) { p.tables[1][1].time = Nanoseconds(30); },
       "GPU 1: held by sum_reached"},
      {[](auto&, auto& p) { p.gpus[1].max_batch = BatchSize(2); },
       "GPU 1: held by limits"},
      {[](auto&, auto& p) { p.tables[1].pop_back(); },
       "GPU 1: held by nothing_larger"},
      {[](auto&, auto& p) { p.tables[2][0].time = Nanoseconds(30); },
       "GPU 2: held by left_not_needed"},
      {[](auto&, auto& p) { p.gpus[2].memory_limit = Bytes(1); },
       "GPU 2: held by left_limits"},
      {[](auto&, auto& p) { p.tables[2].clear(); },
       "GPU 2: held by left_no_batch"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<ShareExplanation> explanations = WhyFourAndTwo();
    AssignProblem problem = ThreeGpus();
    cases[i].spoil(explanations, problem);
    const Status status =
        ValidateExplanations(explanations, FourAndTwo(), problem);
    ASSERT_FALSE(status) << "case " << i;
    EXPECT_THAT(status.error().message, HasSubstr(cases[i].why)) << i;
  }
}

TEST(ValidateAssignmentTest, ChecksTheGainOfOneMoreGpu) {
  AssignProblem problem = ThreeGpus();
  problem.communication.clear();
  Assignment assignment = FourAndTwo();
  assignment.makespan = Nanoseconds(30);
  const std::vector<MarginalGain> good = {{0, Nanoseconds(10), Nanoseconds(20)},
                                          {1, Nanoseconds(20), Nanoseconds(10)},
                                          {2, Nanoseconds(30), Nanoseconds(0)}};
  EXPECT_TRUE(ValidateGains(good, assignment, problem));
  const auto why = [&](std::size_t k, MarginalGain gain) {
    std::vector<MarginalGain> gains = good;
    gains[k] = gain;
    const Status status = ValidateGains(gains, assignment, problem);
    return status ? std::string() : status.error().message;
  };
  EXPECT_THAT(why(0, {1, Nanoseconds(10), Nanoseconds(20)}),
              HasSubstr("gain 0 is of GPU 0, not of 1"));
  EXPECT_THAT(why(1, {1, Nanoseconds(20), Nanoseconds(9)}),
              HasSubstr("gains 9 ns of 30"));
  EXPECT_THAT(why(2, {2, Nanoseconds(31), Nanoseconds(-1)}),
              HasSubstr("gains -1 ns"));
  EXPECT_FALSE(ValidateGains({}, assignment, problem));
}

// One kind with one kernel: 4 images take 20 on the first GPU, 2 take 10 on the
// second; everything but convolution takes 1, and 2 an image.
JointProblem TwoAlike() {
  JointProblem problem;
  JointKind& kind = problem.kinds.emplace_back();
  KernelProfile& kernel = kind.kernels.kernels.emplace_back();
  kernel.id.layer = "conv";
  kernel.points = {Point(2, "A", 8, 10), Point(4, "A", 16, 20)};
  kind.workspace_limit = Bytes(16);
  kind.fixed = Nanoseconds(1);
  kind.per_image = Nanoseconds(2);
  problem.batch = BatchSize(6);
  problem.gpus = {{.kind = 0}, {.kind = 0}};
  return problem;
}

TEST(ValidateAssignmentTest, ChecksJointPlansAgainstTheMeasurements) {
  const JointProblem problem = TwoAlike();
  const auto joint = SolveJoint(problem);
  ASSERT_TRUE(joint) << joint.error().message;
  EXPECT_EQ(joint->assignment.makespan, Nanoseconds(29));
  const Status status = ValidateJoint(*joint, problem);
  EXPECT_TRUE(status) << status.error().message;
  struct Case {
    std::function<void(JointPlan&, JointProblem&)> spoil;
    const char* why;
  };
  const std::size_t four =
      joint->assignment.shares[0].batch == BatchSize(4) ? 0 : 1;
  const std::vector<Case> cases = {
      {[](auto& j, auto&) { j.plans.pop_back(); }, "2 shares and 1 plans"},
      {[=](auto& j, auto&) { j.plans[four].reset(); },
       "has no plan for batch 4"},
      {[](auto&, auto& p) { p.kinds[0].workspace_limit = Bytes(15); },
       "planned for 16 bytes, not 15"},
      {[=](auto&, auto& p) { p.gpus[four].max_batch = BatchSize(3); },
       "batch 4 is larger than 3"},
      {[](auto&, auto& p) {
         p.shares = {BatchSize(1), BatchSize(2)};
       },
       "batch 4 was not to be considered"},
      {[=](auto& j, auto&) { j.plans[four]->Own().kernels[0].time *= 2; },
       "micro-batches take 20 ns, not 40"},
      {[](auto&, auto& p) { p.kinds[0].per_image = Nanoseconds(3); },
       "its plan and the rest take"},
      {[](auto&, auto& p) { p.kinds[0].others.resize(7, Nanoseconds(5)); },
       "its plan and the rest take"},
      {[](auto& j, auto&) { j.assignment.makespan = Nanoseconds(28); },
       "the makespan is 29 ns, not 28"},
      {[=](auto& j, auto&) { j.assignment.shares[four] = {}; },
       "left out, but has a plan"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    JointPlan plan = *joint;
    JointProblem spoilt = problem;
    cases[i].spoil(plan, spoilt);
    const Status wrong = ValidateJoint(plan, spoilt);
    ASSERT_FALSE(wrong) << "case " << i;
    EXPECT_EQ(wrong.error().code, Code::kInternal);
    EXPECT_THAT(wrong.error().message, HasSubstr(cases[i].why)) << i;
  }
}

TEST(ValidateAssignmentDeathTest, AbortsWithTheFault) {
  Assignment assignment = FourAndTwo();
  assignment.gpus_used = 3;
  RequireValid(ValidateAssignment(FourAndTwo(), ThreeGpus()));
  EXPECT_DEATH(RequireValid(ValidateAssignment(assignment, ThreeGpus())),
               "the answer is wrong: 2 GPUs take part, not 3");
}

}  // namespace
}  // namespace ucudnn
