#include "client/train/step_prediction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "client/train/times_json.h"

namespace ucudnn::train {
namespace {

using Times = std::vector<Nanoseconds>;

// Of the inputs that are on the device when a round starts.
Nanoseconds LoadingOf(const MemoryPlan& plan, const TrainingGraph& training) {
  if (training.device.h2d_rate <= 0) return Nanoseconds(0);
  Bytes bytes;
  for (const MemoryRound& round : plan.rounds) {
    for (const ResidentBlock& resident : plan.resident) {
      const MemoryBlock& block = training.blocks[resident.block];
      if (block.kind != BlockKind::kInput) continue;
      bytes += block.SizeAt(round.batch) * round.count;
    }
  }
  return Nanoseconds(std::llround(1e3 * static_cast<double>(bytes.count()) /
                                  training.device.h2d_rate));
}

}  // namespace

RankPasses PassesOf(const MemoryPlan& plan, const TrainingGraph& training,
                    std::span<const TaskOperation> operations,
                    std::span<const GradientBucket> buckets,
                    bool exchanges_statistics) {
  RankPasses passes;
  passes.loading = LoadingOf(plan, training);
  const MemoryRound& last = plan.rounds.back();
  const Nanoseconds before = plan.time - last.time;  // the rounds before
  std::map<std::size_t, Nanoseconds> complete;       // by gradient
  std::set<std::size_t> on_host;                     // gradients
  bool updates = false;
  std::set<std::size_t> ran;
  for (const MemoryEvent& event : last.events) {
    const auto known = complete.find(event.block);
    if (event.op == EventOp::kOffload && known != complete.end()) {
      known->second = before + event.end();
      if (!updates) on_host.insert(event.block);
    } else if (event.op == EventOp::kPrefetch && !updates) {
      on_host.erase(event.block);
    }
    if (event.op != EventOp::kCompute) continue;
    const Task& task = training.tasks[event.task];
    if (IsUpdate(task.kind)) {
      updates = true;
      continue;
    }
    passes.end = before + event.end();
    for (const std::size_t block : task.writes) {
      if (training.blocks[block].kind == BlockKind::kWeightGradient) {
        complete[block] = before + event.end();
      }
    }
    // Between the sums and what is made of them.
    if (exchanges_statistics && ran.insert(event.task).second &&
        operations[event.task].what == TaskOperator::kNormalise) {
      passes.meetings.push_back(before + event.start + event.duration / 2);
    }
  }
  passes.updates = plan.time - passes.end;
  passes.gradients_on_host = !on_host.empty();
  for (const GradientBucket& bucket : buckets) {
    Nanoseconds& end = passes.buckets.emplace_back(0);
    for (const std::size_t block : bucket.blocks) {
      end = std::max(end, complete[block]);
    }
  }
  return passes;
}

std::string Encode(const RankPasses& passes) {
  return nlohmann::ordered_json({{"loading", passes.loading.count()},
                                 {"meetings", Counts(passes.meetings)},
                                 {"buckets", Counts(passes.buckets)},
                                 {"end", passes.end.count()},
                                 {"updates", passes.updates.count()},
                                 {"on_host", passes.gradients_on_host}})
      .dump();
}

RankPasses DecodeRankPasses(const std::string& text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  UCUDNN_CHECK(json.is_object());
  return {Nanoseconds(json["loading"].get<std::int64_t>()),
          TimesOf(json["meetings"]),
          TimesOf(json["buckets"]),
          Nanoseconds(json["end"].get<std::int64_t>()),
          Nanoseconds(json["updates"].get<std::int64_t>()),
          json["on_host"]};
}

StepPrediction PredictStep(std::span<const RankPasses> ranks,
                           std::span<const GradientBucket> buckets,
                           const ExchangeCosts& costs) {
  // By how much each rank is later than by itself after so many meetings.
  std::vector<Times> later(ranks.size(), Times{Nanoseconds(0)});
  for (std::size_t m = 0; m < ranks.front().meetings.size(); ++m) {
    Nanoseconds met{0};
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      met = std::max(met, ranks[r].meetings[m] + later[r].back());
    }
    met += costs.statistics;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      later[r].push_back(met - ranks[r].meetings[m]);
    }
  }
  Nanoseconds summed{0};
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const Nanoseconds alone = ranks[r].buckets[b];
      const auto meetings = std::ranges::upper_bound(ranks[r].meetings, alone) -
                            ranks[r].meetings.begin();
      summed = std::max(summed,
                        alone + later[r][static_cast<std::size_t>(meetings)]);
    }
    summed +=
        costs.bucket +
        Nanoseconds(std::llround(costs.ns_per_byte *
                                 static_cast<double>(buckets[b].size.count())));
  }
  StepPrediction prediction;
  Nanoseconds loaded{0};
  for (const RankPasses& rank : ranks) {
    loaded = std::max(loaded, rank.loading);
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Nanoseconds end = ranks[r].end + later[r].back();
    prediction.passes.push_back(end);
    prediction.step = std::max(
        prediction.step, loaded + std::max(end, summed) + ranks[r].updates);
  }
  return prediction;
}

}  // namespace ucudnn::train
