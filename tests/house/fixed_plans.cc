#include "tests/house/fixed_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/training/json.h"
#include "coordinator/planning/memory_planner.h"
#include "coordinator/planning/planner.h"
#include "solver/arena/concurrency.h"
#include "solver/arena/ws.h"
#include "solver/joint.h"
#include "solver/joint_memory.h"
#include "solver/knapsack/wd.h"
#include "solver/memory/policies.h"
#include "solver/memory/recorded_step.h"
#include "solver/micro_batch/wr.h"
#include "tests/solver/instances.h"
#include "tests/solver/memory/small_graphs.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

// One paragraph.
template <class Plan, class Describe>
void Add(std::string* text, std::string_view name, const Result<Plan>& plan,
         const Describe& describe) {
  *text += fmt::format("\n{}\n", name);
  if (plan) {
    describe(*plan, text);
  } else {
    *text += fmt::format("  error: {}\n", plan.error().message);
  }
}

void DescribeMicroBatches(const KernelPlan& kernel, std::string* text) {
  for (const MicroBatch& micro : kernel.micro_batches) {
    *text += fmt::format(" {}x{} {}", micro.count, micro.batch.count(),
                         micro.algorithm.name);
  }
}

void DescribeWorkspace(const WorkspacePlan& plan, std::string* text) {
  *text += fmt::format("  batch {}: {} ns, bound {} ns, {} B\n",
                       plan.batch.count(), plan.total_time.count(),
                       plan.lower_bound.count(), plan.total_workspace.count());
  for (const KernelPlan& kernel : plan.kernels) {
    *text += fmt::format("  {}: {} ns, {} B at {},", KernelName(kernel),
                         kernel.time.count(), kernel.workspace.count(),
                         kernel.offset ? kernel.offset->count() : -1);
    DescribeMicroBatches(kernel, text);
    *text += '\n';
  }
}

// FNV-1a.
std::uint64_t Digest(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  }
  return hash;
}

// Everything that an executor follows.
std::string EventText(const MemoryEvent& event) {
  std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} {}", Name(event.op), Name(event.stream),
      event.start.count(), event.duration.count(), event.block, event.task,
      event.range.offset.count(), event.range.bytes.count(),
      fmt::join(event.after, ","));
  for (const TaskPart& part : event.parts) {
    text += fmt::format(" {}x{} {}", part.count, part.batch.count(),
                        part.algorithm);
  }
  return text + '\n';
}

void DescribeMemory(const MemoryPlan& plan, std::string* text) {
  *text += fmt::format(
      "  {} ns, bound {} ns, stall {} ns; peak {} B, load {} B, host {} B; "
      "{} B out, {} B back; rounds of {}{}\n",
      plan.time.count(), plan.lower_bound.count(), plan.stall.count(),
      plan.peak.count(), plan.load.count(), plan.host.count(),
      plan.offloaded.count(), plan.prefetched.count(), plan.sub_batch.count(),
      plan.choice.empty() ? "" : ", " + plan.choice);
  for (const MemoryRound& round : plan.rounds) {
    std::array<int, kEventOps.size()> counts = {};
    std::string events;
    for (const MemoryEvent& event : round.events) {
      ++counts[static_cast<std::size_t>(event.op)];
      events += EventText(event);
    }
    *text += fmt::format("  round {}x{}: {} ns", round.count,
                         round.batch.count(), round.time.count());
    for (const EventOp op : kEventOps) {
      *text += fmt::format(", {} {}", counts[static_cast<std::size_t>(op)],
                           Name(op));
    }
    *text += fmt::format(", events {:016x}\n", Digest(events));
  }
}

void DescribeJoint(const JointPlan& plan, std::string* text) {
  *text += fmt::format("  {} ns\n", plan.assignment.makespan.count());
  for (std::size_t g = 0; g < plan.plans.size(); ++g) {
    std::string workspace;
    if (plan.plans[g]) DescribeWorkspace(*plan.plans[g], &workspace);
    *text +=
        fmt::format("  GPU {}: {} images, {} ns, kernels {:016x}\n", g,
                    plan.assignment.shares[g].batch.count(),
                    plan.assignment.shares[g].time.count(), Digest(workspace));
  }
}

void DescribeJointMemory(const JointMemoryPlan& plan, std::string* text) {
  *text += fmt::format("  {} ns, bound {} ns, {} planned\n",
                       plan.assignment.makespan.count(),
                       plan.lower_bound.count(), plan.planned);
  for (const auto& [place, memory] : plan.plans) {
    *text += fmt::format("  kind {}, {} images\n", place.first,
                         place.second.count());
    DescribeMemory(memory, text);
  }
}

void DescribeRecorded(const RecordedPlan& plan, std::string* text) {
  *text += fmt::format(
      "  {} ns, bound {} ns, ideal {} ns; peak {} B, plain {} B, moved {} B\n",
      plan.time.count(), plan.lower_bound.count(), plan.ideal_time.count(),
      plan.peak.count(), plan.plain_peak.count(), plan.moved.count());
  for (const HookAction& action : plan.actions) {
    *text += fmt::format("  hook {}: {} {}\n", action.hook, Name(action.action),
                         action.tensor);
  }
}

void DescribeJob(const JobPlan& plan, std::string* text) {
  *text += fmt::format("  {} ns, bound {} ns\n", plan.predicted.count(),
                       plan.lower_bound.count());
  for (const RankPlan& rank : plan.ranks) {
    *text += fmt::format("  {}: {} images, {}\n", rank.device_kind,
                         rank.batch.count(), rank.reason);
    DescribeWorkspace(*rank.workspace, text);
  }
  for (const std::string& reason : plan.reasons) {
    *text += fmt::format("  {}\n", reason);
  }
  for (const DeviceMemoryPlan& memory : plan.memory_plans) {
    *text += fmt::format("  memory plan of {} images\n", memory.batch.count());
    const auto json = nlohmann::ordered_json::parse(memory.plan);
    const TrainingGraph graph = TrainingGraphOf(json["graph"], "graph").value();
    DescribeMemory(MemoryPlanOf(json, graph, "plan").value(), text);
  }
}

Profile H200(const std::string& file, const std::string& precision) {
  return SelectKernels(ReadProfileFile(DataPath("h200/" + file)).value(),
                       {.precision = precision})
      .value();
}

// Workspace reuse, division and sharing.
void AddWorkspacePlans(std::string* text) {
  const Profile alexnet = H200("alexnet_b256_pow2.csv", "FP32");
  const WrRequest powers{BatchSize(256), 64_MiB, BatchPolicy::kPowerOfTwo};
  Add(text, "WR, AlexNet, 64 MiB each", SolveWr(alexnet, powers),
      DescribeWorkspace);
  Add(text, "WR, AlexNet undivided, 64 MiB each",
      SolveWr(alexnet, {BatchSize(256), 64_MiB, BatchPolicy::kUndivided}),
      DescribeWorkspace);
  Add(text, "WR, AlexNet, PSEUDO_HALF, 8 MiB each",
      SolveWr(H200("alexnet_b256_pow2.csv", "PSEUDO_HALF"),
              {BatchSize(256), 8_MiB, BatchPolicy::kPowerOfTwo}),
      DescribeWorkspace);
  Add(text, "WD, AlexNet, 120 MiB in all",
      SolveWd(alexnet, {BatchSize(256), 120_MiB, BatchPolicy::kPowerOfTwo}),
      DescribeWorkspace);
  Add(text, "WS, AlexNet's kernels all at once, 256 MiB",
      SolveWs(alexnet, AllConcurrent(alexnet.kernels.size()),
              {BatchSize(256), 256_MiB, BatchPolicy::kPowerOfTwo}),
      DescribeWorkspace);

  Random random(1);
  Profile drawn;
  while (drawn.kernels.size() < 6) {
    KernelProfile kernel =
        RandomKernel(random, {}, "conv" + std::to_string(drawn.kernels.size()));
    if (SmallestLimit(kernel.points, BatchSize(8), BatchPolicy::kAll)) {
      drawn.kernels.push_back(std::move(kernel));
    }
  }
  const WrRequest all{BatchSize(8), Bytes(24), BatchPolicy::kAll};
  Add(text, "WR, drawn kernels", SolveWr(drawn, all), DescribeWorkspace);
  Add(text, "WD, drawn kernels", SolveWd(drawn, all), DescribeWorkspace);
  Concurrency two_pairs;  // (0 then 1) beside (2 then 3), then 4, then 5
  using Kind = Concurrency::Kind;
  for (std::size_t leaf = 0; leaf < 6; ++leaf) {
    two_pairs.nodes.push_back({Kind::kLeaf, leaf, {}});
  }
  two_pairs.nodes.push_back({Kind::kSerial, 0, {0, 1}});
  two_pairs.nodes.push_back({Kind::kSerial, 0, {2, 3}});
  two_pairs.nodes.push_back({Kind::kParallel, 0, {6, 7}});
  two_pairs.nodes.push_back({Kind::kSerial, 0, {8, 4, 5}});
  Add(text, "WS, drawn kernels", SolveWs(drawn, two_pairs, all),
      DescribeWorkspace);

  JointProblem joint;
  joint.batch = BatchSize(256);
  for (const char* file :
       {"alexnet_b256_pow2_sm64.csv", "alexnet_b256_pow2_sm32.csv"}) {
    JointKind& kind = joint.kinds.emplace_back();
    kind.kernels = H200(file, "FP32");
    kind.workspace_limit = 64_MiB;
    kind.policy = BatchPolicy::kPowerOfTwo;
    kind.fixed = Nanoseconds(500'000);
    kind.per_image = Nanoseconds(20'000);
  }
  joint.gpus = {{.kind = 0}, {.kind = 1}, {.kind = 1}};
  Add(text, "shares, AlexNet on 64, 32 and 32 multiprocessors",
      SolveJoint(joint), DescribeJoint);
  joint.communication = {Nanoseconds(0), Nanoseconds(3'000'000),
                         Nanoseconds(9'000'000)};
  Add(text, "the same with time to exchange gradients", SolveJoint(joint),
      DescribeJoint);
}

// A policy's plan in this part of the memory that all of an iteration takes.
void AddMemoryPlan(std::string* text, std::string_view what,
                   const TrainingGraph& graph, std::string_view policy,
                   int eighths, MemoryRequest request = MemoryRequest()) {
  request.budget = PeakOf(graph) * eighths / 8;
  Add(text, fmt::format("{}, {}, {}/8", policy, what, eighths),
      PlanMemory(graph, request, *FindMemoryPolicy(policy).value()),
      DescribeMemory);
}

void AddMemoryPlans(std::string* text) {
  const TrainingGraph residual = OnSmallDevice(SmallResidual(16));
  for (const MemoryPolicy& policy : MemoryPolicies()) {
    AddMemoryPlan(text, "residual", residual, policy.name, 7);
  }
  const TrainingGraph inception = OnSmallDevice(SmallInception(16));
  AddMemoryPlan(text, "inception", inception, "best", 3);
  MemoryRequest asked;
  asked.allocator = MemoryAllocator::kStatic;
  AddMemoryPlan(text, "inception, static addresses", inception, "vdnn-ext", 7,
                asked);
  asked = {};
  asked.sub_batch = BatchSize(16);
  AddMemoryPlan(text, "residual, undivided", residual, "best", 3, asked);
  const TrainingGraph slow_link = OnSmallDevice(SmallResidual(16), 0.2);
  asked.recompute = true;
  AddMemoryPlan(text, "residual, slow link, undivided", slow_link, "best", 3,
                asked);
  asked = {};
  asked.offload_weights = true;
  const TrainingGraph chain = OnSmallDevice(SmallChain(16), 20);
  AddMemoryPlan(text, "chain, weights may leave", chain, "best", 1, asked);
  AddMemoryPlan(text, "chain", chain, "best", 1);

  JointMemoryProblem joint;
  joint.batch = BatchSize(16);
  joint.policy = FindMemoryPolicy("best").value();
  joint.kinds = {{chain, PeakOf(chain)}, {chain, PeakOf(chain) / 4}};
  joint.gpus = {0, 1};
  joint.step = BatchSize(4);
  Add(text, "shares under memory plans, chain in all and a quarter of memory",
      SolveJointMemory(joint), DescribeJointMemory);
}

// Each layer saves a tensor, which the backward pass needs in reverse.
RecordedStep DrawnStep(std::uint64_t seed, std::size_t layers) {
  Random random(seed);
  RecordedStep step;
  step.link.d2h_rate = step.link.h2d_rate = 500;
  const std::size_t segments = 2 * layers + 2;
  for (std::size_t s = 0; s < segments; ++s) {
    step.segments.push_back({Nanoseconds(Draw(random, 100, 1600)),
                             Bytes(256 * Draw(random, 0, 4)),
                             2 * s >= segments});
  }
  for (std::size_t i = 0; i < layers; ++i) {
    RecordedTensor& tensor = step.tensors.emplace_back();
    tensor.bytes = Bytes(256 * Draw(random, 1, 5));
    tensor.hook = i;
    tensor.uses = {segments - 1 - i};
    if (i == 0 || Draw(random, 0, 1) == 0) continue;
    tensor.recipe = {Nanoseconds(Draw(random, 0, 90)), Bytes(256), {i - 1}};
    step.tensors[i - 1].held = i;
  }
  return step;
}

void AddRecordedSteps(std::string* text) {
  const RecordedStep step = DrawnStep(1, 12);
  const auto add = [&](std::string_view what, RecordedRequest request) {
    Add(text, what, PlanRecordedStep(step, request), DescribeRecorded);
  };
  add("recorded step, 6 KiB", {.budget = 6_KiB});
  add("recorded step, 4 KiB, only moves",
      {.budget = 4_KiB, .recompute = false});
  add("recorded step, 5 KiB, only computed again",
      {.budget = 5_KiB, .offload = false});
  add("recorded step, 1 KiB", {.budget = 1_KiB});
}

// What the coordinator makes of the solvers' plans.
void AddJobPlans(std::string* text) {
  Network network;
  network.name = "one";
  network.layers.emplace_back().name = "conv";
  JobRequest request;
  request.network = "one";
  request.batch = BatchSize(12);
  request.device_kinds = {"Fast/2u/1GiB/none-1.0", "Slow/1u/1GiB/none-1.0",
                          "Slow/1u/1GiB/none-1.0"};
  request.total_workspace = 10_B;
  request.exclude_ranks = {2};
  KindProfiles profiles;
  for (const Need& need : NeedsOf(network, request)) {
    const int slow = need.kind.starts_with("Slow") ? 3 : 1;
    MeasuredPoint point;
    point.batch = need.batch;
    point.algorithm.name = "PLAIN";
    point.time = Nanoseconds(700 * slow + 1000 * slow * need.batch.count());
    point.enqueue = Nanoseconds(2000);
    auto& points = profiles[need.kind][need.problem];
    points.push_back(point);
    if (need.batch.count() > 4) continue;
    point.algorithm.name = "QUICK";
    point.workspace = 10_B;
    point.time = point.time * 8 / 10;
    points.push_back(point);
  }
  Add(text, "a job's shares", MakePlan(network, request, profiles),
      DescribeJob);

  NetworkRecord chain;
  chain.name = "chain";
  chain.source =
      "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
      "conv1,3,32,32,64,3,3,1,1,1,1,1\n"
      "conv2,64,32,32,64,3,3,1,1,1,1,1\n";
  request = {};
  request.network = chain.name;
  request.batch = BatchSize(5);
  request.device_kinds.assign(2, "Fast/2u/1GiB/none-1.0");
  request.memory.emplace().budgets = {2_MiB};
  DeviceModels models;
  models[request.device_kinds[0]] = DeviceModelPreset("K40").value();
  Add(text, "a job's memory plans",
      MakeMemoryPlans(chain, request, {}, models, std::chrono::hours(1)),
      DescribeJob);
}

}  // namespace

std::string FixedPlans() {
  std::string text;
  AddWorkspacePlans(&text);
  AddMemoryPlans(&text);
  AddRecordedSteps(&text);
  AddJobPlans(&text);
  return text;
}

}  // namespace ucudnn::test
