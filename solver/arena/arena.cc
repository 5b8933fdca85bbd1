#include "solver/arena/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "solver/knapsack/mckp.h"

namespace ucudnn {
namespace {

using Kind = Concurrency::Kind;
using Points = std::vector<FrontPoint>;

// The front of the first parts of a Parallel: each point with the two it is
// made of, one of the parts before and one of the last part.
struct Stacked {
  Points points;
  std::vector<std::pair<std::size_t, std::size_t>> from;
};

// Serial: at each workspace level every part runs its fastest point that fits.
Points Overlay(const std::vector<std::span<const FrontPoint>>& parts) {
  struct Event {
    Bytes workspace;
    std::size_t part;
    Nanoseconds time;
  };
  std::vector<Event> events;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const FrontPoint& point : parts[p]) {
      events.push_back({point.workspace, p, point.time});
    }
  }
  // Of a part's points with equal workspaces the last is the fastest.
  std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
    return std::tie(a.workspace, a.part) < std::tie(b.workspace, b.part);
  });
  std::vector<std::optional<Nanoseconds>> now(parts.size());
  std::size_t started = 0;
  Nanoseconds total{0};
  Points front;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    started += now[event.part].has_value() ? 0 : 1;
    total += event.time - now[event.part].value_or(Nanoseconds(0));
    now[event.part] = event.time;
    if (started < parts.size() ||
        (i + 1 < events.size() && events[i + 1].workspace == event.workspace)) {
      continue;
    }
    front.push_back({total, event.workspace});
  }
  return front;
}

// Parallel: the undominated sums of a point of `a` and one of `b` within
// `limit`, found by merging one shifted copy of `a` for each point of `b`.
Stacked Stack(std::span<const FrontPoint> a, std::span<const FrontPoint> b,
              Bytes limit) {
  struct Next {
    Bytes workspace;
    Nanoseconds time;
    std::size_t i;
    std::size_t j;
  };
  const auto later = [](const Next& x, const Next& y) {
    return std::tie(x.workspace, x.time, x.j) >
           std::tie(y.workspace, y.time, y.j);
  };
  std::priority_queue<Next, std::vector<Next>, decltype(later)> queue(later);
  const auto push = [&](std::size_t i, std::size_t j) {
    if (i < a.size() && a[i].workspace <= limit - b[j].workspace) {
      queue.push(
          {a[i].workspace + b[j].workspace, a[i].time + b[j].time, i, j});
    }
  };
  for (std::size_t j = 0; j < b.size(); ++j) push(0, j);
  Stacked stacked;
  while (!queue.empty()) {
    const Next next = queue.top();
    queue.pop();
    if (stacked.points.empty() || next.time < stacked.points.back().time) {
      if (!stacked.points.empty() &&
          stacked.points.back().workspace == next.workspace) {
        stacked.points.pop_back();
        stacked.from.pop_back();
      }
      stacked.points.push_back({next.time, next.workspace});
      stacked.from.emplace_back(next.i, next.j);
    }
    push(next.i + 1, next.j);
  }
  return stacked;
}

// Keeps `most` of the points, including the smallest and the fastest.
void Thin(std::size_t most, Stacked* stacked) {
  const std::size_t size = stacked->points.size();
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t from = i * (size - 1) / (most - 1);
    stacked->points[i] = stacked->points[from];
    stacked->from[i] = stacked->from[from];
  }
  stacked->points.resize(most);
  stacked->from.resize(most);
}

class ArenaSolver {
 public:
  ArenaSolver(const Concurrency& concurrency,
              std::span<const std::span<const FrontPoint>> fronts, Bytes limit,
              const WsLimits& limits)
      : nodes_(concurrency.nodes),
        fronts_(fronts),
        limit_(limit),
        limits_(limits),
        built_(nodes_.size()),
        stacks_(nodes_.size()) {
    arena_.point.resize(fronts.size(), 0);
    arena_.offset.resize(fronts.size());
  }

  Result<Arena> Solve() {
    // A leaf that is only below Serials has the whole limit to itself.
    std::vector<std::size_t> open = {nodes_.size() - 1};
    while (!open.empty()) {
      const std::size_t node = open.back();
      open.pop_back();
      if (nodes_[node].kind == Kind::kSerial) {
        open.insert(open.end(), nodes_[node].parts.begin(),
                    nodes_[node].parts.end());
      } else {
        UCUDNN_RETURN_IF_ERROR(SolveGroup(node));
      }
    }
    return std::move(arena_);
  }

 private:
  Status SolveGroup(std::size_t root) {
    // The group's nodes, parents before parts.
    std::vector<std::size_t> below = {root};
    ArenaGroup group;
    std::int64_t slowest = 0;
    group.feasible = true;
    for (std::size_t i = 0; i < below.size(); ++i) {
      const Concurrency::Node& node = nodes_[below[i]];
      below.insert(below.end(), node.parts.begin(), node.parts.end());
      if (node.kind != Kind::kLeaf) continue;
      group.leaves.push_back(node.leaf);
      if (fronts_[node.leaf].empty() ||
          fronts_[node.leaf].front().workspace > limit_) {
        group.feasible = false;
        continue;
      }
      const std::int64_t time = fronts_[node.leaf].front().time.count();
      if (time > kMostArenaTime - slowest) {
        return Fail(Code::kOutOfRange,
                    "the times of kernels that may coincide add up to more "
                    "than 36 years");
      }
      slowest += time;
    }
    if (group.feasible) {
      UCUDNN_RETURN_IF_ERROR(nodes_[root].kind == Kind::kLeaf
                                 ? SolveLeaf(root, &group)
                                 : SolveParallel(root, below, &group));
    }
    arena_.groups.push_back(std::move(group));
    return {};
  }

  Status SolveLeaf(std::size_t root, ArenaGroup* group) {
    const std::size_t leaf = nodes_[root].leaf;
    arena_.point[leaf] = *FastestWithin(fronts_[leaf], limit_);
    group->time = fronts_[leaf][arena_.point[leaf]].time;
    group->lower_bound = group->time;
    return {};
  }

  Status SolveParallel(std::size_t root, const std::vector<std::size_t>& below,
                       ArenaGroup* group) {
    bool thinned = false;
    for (std::size_t i = below.size(); --i > 0;) {  // parts first, not the root
      thinned = Build(below[i]) || thinned;
      if (FrontOf(below[i]).empty()) {
        group->feasible = false;
        return {};
      }
    }
    std::vector<std::vector<MckpItem>> items;
    std::vector<MckpClass> classes;
    items.reserve(nodes_[root].parts.size());
    classes.reserve(nodes_[root].parts.size());
    for (const std::size_t part : nodes_[root].parts) {
      items.emplace_back();
      for (const FrontPoint& point : FrontOf(part)) {
        if (point.workspace > limit_) break;
        items.back().push_back({point.time.count(), point.workspace.count()});
      }
    }
    for (const auto& part : items) classes.push_back({part, 1});
    const auto solved = SolveMckp(classes, limit_.count(), limits_.search);
    if (!solved) {
      if (solved.error().code != Code::kFailedPrecondition) {
        return tl::unexpected<Error>(solved.error());
      }
      group->feasible = false;
      return {};
    }
    group->time = Nanoseconds(solved->cost);
    group->lower_bound = Nanoseconds(solved->lower_bound);
    if (thinned) {
      Nanoseconds alone{0};
      for (const std::size_t leaf : group->leaves) {
        alone += fronts_[leaf][*FastestWithin(fronts_[leaf], limit_)].time;
      }
      group->lower_bound = alone;
      if (TakeEqualParts(group)) return {};
    }
    Bytes offset;
    for (std::size_t p = 0; p < classes.size(); ++p) {
      const std::size_t part = nodes_[root].parts[p];
      Place(part, solved->choice[p], offset);
      offset += FrontOf(part)[solved->choice[p]].workspace;
    }
    return {};
  }

  // Gives each leaf an equal part of the limit, if that is faster: fronts that
  // were thinned out may have lost it.
  bool TakeEqualParts(ArenaGroup* group) {
    const Bytes part = limit_ / std::ssize(group->leaves);
    Nanoseconds time{0};
    for (const std::size_t leaf : group->leaves) {
      const auto point = FastestWithin(fronts_[leaf], part);
      if (!point) return false;
      time += fronts_[leaf][*point].time;
    }
    if (time >= group->time) return false;
    group->time = time;
    Bytes offset;
    for (const std::size_t leaf : group->leaves) {
      arena_.point[leaf] = *FastestWithin(fronts_[leaf], part);
      arena_.offset[leaf] = offset;
      offset += fronts_[leaf][arena_.point[leaf]].workspace;
    }
    return true;
  }

  std::span<const FrontPoint> FrontOf(std::size_t node) const {
    return nodes_[node].kind == Kind::kLeaf
               ? fronts_[nodes_[node].leaf]
               : std::span<const FrontPoint>(built_[node]);
  }

  // Makes the front of a node from its parts' fronts; returns whether it was
  // thinned out.
  bool Build(std::size_t node) {
    const std::vector<std::size_t>& parts = nodes_[node].parts;
    if (nodes_[node].kind == Kind::kSerial) {
      std::vector<std::span<const FrontPoint>> fronts;
      fronts.reserve(parts.size());
      for (const std::size_t part : parts) fronts.push_back(FrontOf(part));
      built_[node] = Overlay(fronts);
      return false;
    }
    if (nodes_[node].kind == Kind::kLeaf) return false;
    const std::size_t most = std::max<std::size_t>(limits_.max_front, 2);
    bool thinned = false;
    std::span<const FrontPoint> front = FrontOf(parts[0]);
    stacks_[node].reserve(parts.size());
    for (std::size_t p = 1; p < parts.size(); ++p) {
      stacks_[node].push_back(Stack(front, FrontOf(parts[p]), limit_));
      if (stacks_[node].back().points.size() > most) {
        Thin(most, &stacks_[node].back());
        thinned = true;
      }
      front = stacks_[node].back().points;
    }
    built_[node].assign(front.begin(), front.end());
    return thinned;
  }

  // Gives each leaf below `node` its point and offset.
  void Place(std::size_t node, std::size_t point, Bytes offset) {
    struct Open {
      std::size_t node;
      std::size_t point;
      Bytes offset;
    };
    std::vector<Open> open = {{node, point, offset}};
    while (!open.empty()) {
      const Open at = open.back();
      open.pop_back();
      const Concurrency::Node& here = nodes_[at.node];
      if (here.kind == Kind::kLeaf) {
        arena_.point[here.leaf] = at.point;
        arena_.offset[here.leaf] = at.offset;
      } else if (here.kind == Kind::kSerial) {
        const Bytes level = built_[at.node][at.point].workspace;
        for (const std::size_t part : here.parts) {
          open.push_back(
              {part, *FastestWithin(FrontOf(part), level), at.offset});
        }
      } else {
        std::vector<std::size_t> points(here.parts.size());
        std::size_t rest = at.point;
        for (std::size_t p = here.parts.size(); --p > 0;) {
          std::tie(rest, points[p]) = stacks_[at.node][p - 1].from[rest];
        }
        points[0] = rest;
        Bytes next = at.offset;
        for (std::size_t p = 0; p < here.parts.size(); ++p) {
          open.push_back({here.parts[p], points[p], next});
          next += FrontOf(here.parts[p])[points[p]].workspace;
        }
      }
    }
  }

  const std::vector<Concurrency::Node>& nodes_;
  std::span<const std::span<const FrontPoint>> fronts_;
  Bytes limit_;
  const WsLimits& limits_;
  std::vector<Points> built_;                 // of Serials and Parallels
  std::vector<std::vector<Stacked>> stacks_;  // of Parallels, after each part
  Arena arena_;
};

}  // namespace

Result<Arena> SolveArena(const Concurrency& concurrency,
                         std::span<const std::span<const FrontPoint>> fronts,
                         Bytes limit, const WsLimits& limits) {
  return ArenaSolver(concurrency, fronts, limit, limits).Solve();
}

Bytes SmallestArena(const Concurrency& concurrency,
                    std::span<const Bytes> least) {
  std::vector<std::int64_t> needs;
  for (const Concurrency::Node& node : concurrency.nodes) {
    std::int64_t need = node.kind == Kind::kLeaf ? least[node.leaf].count() : 0;
    for (const std::size_t part : node.parts) {
      need = node.kind == Kind::kSerial
                 ? std::max(need, needs[part])
                 : need + std::min(needs[part], kMaxCount - need);
    }
    needs.push_back(std::min(need, kMaxCount));
  }
  return Bytes(needs.back());
}

}  // namespace ucudnn
