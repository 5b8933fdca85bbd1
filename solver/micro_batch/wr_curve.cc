// Workspace reuse for all mini-batches at once: the recurrence and its results.

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

// Times are added as unsigned numbers: two of at most kNever do not overflow.
constexpr std::uint64_t kNever = std::uint64_t{kMaxCount} + 1;

std::uint64_t TimeOf(const MeasuredPoint& point) {
  return static_cast<std::uint64_t>(point.time.count());
}

std::uint64_t AddingTimeOf(const MeasuredPoint& point) {
  return static_cast<std::uint64_t>(AddingTime(point).count());
}

std::uint64_t SpreadOf(const MeasuredPoint& point) {
  return static_cast<std::uint64_t>(point.spread.count());
}

// What a chain minimises: one of the times, or that plus the spread.
using Cost = std::uint64_t (*)(const MeasuredPoint& point);

template <Cost time>
std::uint64_t WithSpread(const MeasuredPoint& point) {
  return std::min(time(point) + SpreadOf(point), kNever);
}

bool Prefer(const MeasuredPoint& a, const MeasuredPoint& b, Cost cost_of) {
  const std::uint64_t cost_a = cost_of(a);
  const std::uint64_t cost_b = cost_of(b);
  if (cost_a != cost_b) return cost_a < cost_b;
  return std::tie(a.workspace, a.algorithm) <
         std::tie(b.workspace, b.algorithm);
}

}  // namespace

Status CheckWrArguments(std::span<const MeasuredPoint> points, BatchSize batch,
                        Bytes limit) {
  if (batch < BatchSize(1) || batch > kMaxBatchSize) {
    return Fail(Code::kInvalidArgument, "the batch is {}; 1 to {} is accepted",
                batch.count(), kMaxBatchSize.count());
  }
  if (limit < Bytes(0)) {
    return Fail(Code::kInvalidArgument,
                "the workspace limit is {} bytes; 0 or more is accepted",
                limit.count());
  }
  const auto in_range = [](Nanoseconds time) {
    return time >= Nanoseconds(0) && time <= Nanoseconds(kMaxCount);
  };
  for (const MeasuredPoint& point : points) {
    if (point.batch < BatchSize(1) || point.workspace < Bytes(0) ||
        !in_range(point.time) || !in_range(point.spread) ||
        !in_range(point.adding)) {
      return Fail(Code::kInvalidArgument,
                  "a measurement of {} at batch {} has {} bytes of workspace, "
                  "{} ns, {} ns adding and a spread of {} ns; a batch from 1, "
                  "a workspace from 0 and times from 0 to 2^62 ns are accepted",
                  point.algorithm.name, point.batch.count(),
                  point.workspace.count(), point.time.count(),
                  point.adding.count(), point.spread.count());
    }
  }
  return {};
}

bool PolicyAdmits(BatchPolicy policy, BatchSize batch, BatchSize mini_batch) {
  if (batch > mini_batch || batch < BatchSize(1)) return false;
  if (batch == mini_batch) return true;
  switch (policy) {
    case BatchPolicy::kAll:
    case BatchPolicy::kAdaptive:
      return true;
    case BatchPolicy::kPowerOfTwo:
      return std::has_single_bit(static_cast<std::uint64_t>(batch.count()));
    case BatchPolicy::kUndivided:
      return false;
  }
  return false;
}

// Fills a WrCurve.
class WrSolver {
 public:
  WrSolver(std::span<const MeasuredPoint> points, BatchSize max_batch,
           Bytes limit, BatchPolicy policy)
      : points_(points),
        size_(Index(max_batch) + 1),
        limit_(limit),
        policy_(policy) {}

  WrCurve Solve() const {
    WrCurve curve;
    curve.fastest_ = Compose(TimeOf, AddingTimeOf);
    const WrCurve::Chain& chain = curve.fastest_.writing;
    curve.final_.assign(size_, WrCurve::Final::kNone);
    for (std::size_t b = 1; b < size_; ++b) {
      const MeasuredPoint* whole = chain.best[b];
      if (whole != nullptr &&
          std::tuple(TimeOf(*whole), 1, whole->workspace.count()) <=
              std::tuple(chain.cost[b], chain.count[b], chain.workspace[b])) {
        curve.final_[b] = WrCurve::Final::kUndivided;
      } else if (chain.cost[b] != kNever) {
        curve.final_[b] = WrCurve::Final::kFastest;
      }
    }
    if (std::ranges::any_of(points_, [](const auto& point) {
          return point.spread.count() > 0;
        })) {
      DistrustNoise(&curve);
    }
    return curve;
  }

 private:
  // The recurrences, without the mini-batches that the policy admits only as a
  // whole.
  WrCurve::Divisions Compose(Cost writing, Cost adding) const {
    WrCurve::Divisions divisions;
    if (std::ranges::any_of(points_, [](const MeasuredPoint& point) {
          return point.adding > Nanoseconds(0);
        })) {
      divisions.adding = ComposeChain(adding, nullptr);
    }
    divisions.writing =
        ComposeChain(writing, divisions.adding ? &*divisions.adding : nullptr);
    return divisions;
  }

  // One of them; `others` compose what follows the first micro-batch, or if
  // null the chain itself.
  WrCurve::Chain ComposeChain(Cost cost_of,
                              const WrCurve::Chain* others) const {
    WrCurve::Chain chain;
    chain.best.assign(size_, nullptr);
    for (const MeasuredPoint& point : points_) {
      if (point.workspace > limit_ ||
          point.batch.count() >= static_cast<std::int64_t>(size_) ||
          cost_of(point) == kNever) {
        continue;
      }
      const MeasuredPoint*& best = chain.best[Index(point.batch)];
      if (best == nullptr || Prefer(point, *best, cost_of)) best = &point;
    }
    chain.cost.assign(size_, kNever);
    chain.workspace.assign(size_, 0);
    chain.count.assign(size_, 0);
    chain.first.assign(size_, 0);
    chain.cost[0] = 0;
    // A mini-batch that no size equals, so that the policy sees parts only.
    const BatchSize mini_batch{static_cast<std::int64_t>(size_)};
    for (std::size_t p = 1; p < size_; ++p) {
      if (chain.best[p] != nullptr &&
          PolicyAdmits(policy_, chain.best[p]->batch, mini_batch)) {
        Join(p, cost_of(*chain.best[p]), others ? *others : chain, &chain);
      }
    }
    return chain;
  }

  // Admits micro-batches of size `p` before the divisions of `others`, which
  // may be `chain` itself. Divisions that begin with smaller sizes are already
  // in the chain, and the pass reaches b - p before b.
  void Join(std::size_t p, std::uint64_t cost, const WrCurve::Chain& others,
            WrCurve::Chain* chain) const {
    const std::int64_t workspace = chain->best[p]->workspace.count();
    if (std::tuple(chain->cost[p], chain->count[p], chain->workspace[p]) <=
        std::tuple(cost, 1, workspace)) {
      return;  // smaller sizes are as good, also as parts of larger divisions
    }
    for (std::size_t b = p; b < size_; ++b) {
      const std::size_t rest = b - p;
      const std::uint64_t total = others.cost[rest] + cost;
      if (total > chain->cost[b] || total >= kNever) continue;
      const std::int32_t count = others.count[rest] + 1;
      const std::int64_t largest = std::max(others.workspace[rest], workspace);
      if (total == chain->cost[b] &&
          std::tie(count, largest) >
              std::tie(chain->count[b], chain->workspace[b])) {
        continue;
      }
      chain->cost[b] = total;
      chain->count[b] = count;
      chain->workspace[b] = largest;
      chain->first[b] = static_cast<std::int32_t>(p);
    }
  }

  // Keeps a mini-batch undivided unless a division passes the noise test.
  void DistrustNoise(WrCurve* curve) const {
    const WrCurve::Chain& fastest = curve->fastest_.writing;
    const std::vector<std::uint64_t> spread =
        Sum(curve->fastest_, SpreadOf, SpreadOf);
    // A division must stay below this, including its spread.
    const auto bound = [&](std::size_t b) {
      const MeasuredPoint& whole = *fastest.best[b];
      return TimeOf(whole) - std::min(TimeOf(whole), SpreadOf(whole));
    };
    std::vector<std::size_t> doubtful;
    for (std::size_t b = 1; b < size_; ++b) {
      if (curve->final_[b] == WrCurve::Final::kFastest &&
          fastest.best[b] != nullptr &&
          fastest.cost[b] + spread[b] >= bound(b)) {
        doubtful.push_back(b);
      }
    }
    if (doubtful.empty()) return;
    curve->cautious_ = Compose(WithSpread<TimeOf>, WithSpread<AddingTimeOf>);
    curve->cautious_time_ = Sum(curve->cautious_, TimeOf, AddingTimeOf);
    for (const std::size_t b : doubtful) {
      curve->final_[b] = curve->cautious_.writing.cost[b] < bound(b)
                             ? WrCurve::Final::kCautious
                             : WrCurve::Final::kUndivided;
    }
  }

  // The sum over each composition's micro-batches, at most kNever.
  std::vector<std::uint64_t> Sum(const WrCurve::Divisions& divisions,
                                 Cost writing, Cost adding) const {
    if (!divisions.adding) return SumChain(divisions.writing, writing, nullptr);
    const auto others = SumChain(*divisions.adding, adding, nullptr);
    return SumChain(divisions.writing, writing, &others);
  }

  // Of one chain; `others` are the sums of what follows the first micro-batch,
  // or if null those of the chain itself.
  std::vector<std::uint64_t> SumChain(
      const WrCurve::Chain& chain, Cost term,
      const std::vector<std::uint64_t>* others) const {
    std::vector<std::uint64_t> sums(size_, 0);
    for (std::size_t b = 1; b < size_; ++b) {
      if (chain.cost[b] == kNever) continue;
      const auto first = static_cast<std::size_t>(chain.first[b]);
      const std::uint64_t rest = (others ? *others : sums)[b - first];
      sums[b] = std::min(rest + term(*chain.best[first]), kNever);
    }
    return sums;
  }

  std::span<const MeasuredPoint> points_;
  std::size_t size_;
  Bytes limit_;
  BatchPolicy policy_;
};

WrCurve::Final WrCurve::FinalAt(BatchSize batch) const {
  return batch < BatchSize(1) || batch > max_batch() ? Final::kNone
                                                     : final_[Index(batch)];
}

std::optional<Nanoseconds> WrCurve::TimeAt(BatchSize batch) const {
  const std::size_t b = Index(batch);
  switch (FinalAt(batch)) {
    case Final::kNone:
      return std::nullopt;
    case Final::kUndivided:
      return fastest_.writing.best[b]->time;
    case Final::kFastest:
      return Nanoseconds(static_cast<std::int64_t>(fastest_.writing.cost[b]));
    case Final::kCautious:
      return Nanoseconds(static_cast<std::int64_t>(cautious_time_[b]));
  }
  return std::nullopt;
}

std::optional<Nanoseconds> WrCurve::LowerBoundAt(BatchSize batch) const {
  if (FinalAt(batch) == Final::kNone) return std::nullopt;
  const std::size_t b = Index(batch);
  std::uint64_t bound = fastest_.writing.cost[b];
  if (fastest_.writing.best[b] != nullptr) {
    bound = std::min(bound, TimeOf(*fastest_.writing.best[b]));
  }
  return Nanoseconds(static_cast<std::int64_t>(bound));
}

std::optional<Nanoseconds> WrCurve::UndividedTimeAt(BatchSize batch) const {
  if (FinalAt(batch) == Final::kNone ||
      fastest_.writing.best[Index(batch)] == nullptr) {
    return std::nullopt;
  }
  return fastest_.writing.best[Index(batch)]->time;
}

std::optional<Bytes> WrCurve::WorkspaceAt(BatchSize batch) const {
  const std::size_t b = Index(batch);
  switch (FinalAt(batch)) {
    case Final::kNone:
      return std::nullopt;
    case Final::kUndivided:
      return fastest_.writing.best[b]->workspace;
    case Final::kFastest:
      return Bytes(fastest_.writing.workspace[b]);
    case Final::kCautious:
      return Bytes(cautious_.writing.workspace[b]);
  }
  return std::nullopt;
}

std::vector<MicroBatch> WrCurve::PlanAt(BatchSize batch) const {
  std::vector<MicroBatch> plan;
  const auto add = [&plan](const MeasuredPoint& point, Nanoseconds time) {
    const MicroBatch micro = {point.batch, 1, point.algorithm, time,
                              point.workspace};
    const auto is_same = [&](const MicroBatch& last) {
      return std::tie(last.batch, last.algorithm, last.time, last.workspace) ==
             std::tie(micro.batch, micro.algorithm, micro.time,
                      micro.workspace);
    };
    if (!plan.empty() && is_same(plan.back())) {
      ++plan.back().count;
    } else {
      plan.push_back(micro);
    }
  };
  const Final choice = FinalAt(batch);
  if (choice == Final::kNone) return plan;
  const Divisions& divisions =
      choice == Final::kCautious ? cautious_ : fastest_;
  const auto first =
      choice == Final::kUndivided
          ? Index(batch)
          : static_cast<std::size_t>(divisions.writing.first[Index(batch)]);
  const MeasuredPoint& writes = *divisions.writing.best[first];
  add(writes, writes.time);
  const Chain& rest = divisions.rest();
  for (std::size_t b = Index(batch) - first; b > 0;) {
    const auto next = static_cast<std::size_t>(rest.first[b]);
    add(*rest.best[next], AddingTime(*rest.best[next]));
    b -= next;
  }
  return plan;
}

Result<WrCurve> SolveWrCurve(std::span<const MeasuredPoint> points,
                             BatchSize max_batch, Bytes workspace_limit,
                             BatchPolicy policy) {
  UCUDNN_RETURN_IF_ERROR(CheckWrArguments(points, max_batch, workspace_limit));
  return WrSolver(points, max_batch, workspace_limit, policy).Solve();
}

}  // namespace ucudnn
