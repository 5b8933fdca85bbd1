#include "solver/mckp_relaxation.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ucudnn::mckp_internal {
namespace {

constexpr std::int64_t kMaxTotal = std::int64_t{1} << 60;
constexpr std::int64_t kMaxProduct = std::int64_t{1} << 62;

// One edge of a hull; all copies of its class.
struct Edge {
  double slope = 0;  // cost saved per weight
  std::int64_t weight = 0;
  std::uint32_t front = 0;
  std::uint32_t from = 0;  // in Relaxation::hull
};

// The undominated ones of `items`, sorted, and where they came from.
void SortFront(std::span<const MckpItem> items, std::vector<MckpItem>* sorted,
               std::vector<std::uint32_t>* index) {
  std::vector<std::uint32_t> order(items.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (items[a].weight != items[b].weight) {
      return items[a].weight < items[b].weight;
    }
    if (items[a].cost != items[b].cost) {
      return items[a].cost < items[b].cost;
    }
    return a < b;
  });
  for (const std::uint32_t i : order) {
    if (!sorted->empty() && items[i].cost >= sorted->back().cost) continue;
    sorted->push_back(items[i]);
    index->push_back(i);
  }
}

// Whether the middle of three points by rising weight lies on or above the
// line through the others.
template <class Product>
bool AboveLine(const MckpItem& a, const MckpItem& b, const MckpItem& c) {
  return Product{a.cost - b.cost} * (c.weight - b.weight) <=
         Product{b.cost - c.cost} * (b.weight - a.weight);
}

// Writes the positions of the lower hull's vertices from `hull` on, which has
// room for all; returns their end. Product holds a cost times a weight.
template <class Product>
std::uint32_t* WriteHull(const Front& front, std::uint32_t* hull) {
  std::uint32_t* end = hull;
  for (std::uint32_t i = 0; i < front.size; ++i) {
    while (end - hull >= 2 &&
           AboveLine<Product>(front.items[end[-2]], front.items[end[-1]],
                              front.items[i])) {
      --end;
    }
    *end++ = i;
  }
  return end;
}

void AppendHull(Front* front, std::vector<std::uint32_t>* hull) {
  const std::size_t begin = hull->size();
  hull->resize(begin + front->size);
  std::uint32_t* const first = hull->data() + begin;
  const std::uint32_t* const last = front->small_products
                                        ? WriteHull<std::int64_t>(*front, first)
                                        : WriteHull<Wide>(*front, first);
  hull->resize(static_cast<std::size_t>(last - hull->data()));
  front->hull_begin = static_cast<std::uint32_t>(begin);
  front->hull_end = static_cast<std::uint32_t>(hull->size());
}

// Where that fits, every class takes its cheapest item, and no hull is needed.
void TakeCheapest(Relaxation* r) {
  r->everything_fits = true;
  r->hull.reserve(r->fronts.size());
  for (Front& front : r->fronts) {
    front.hull_begin = static_cast<std::uint32_t>(r->hull.size());
    front.base = front.hull_begin;
    front.hull_end = front.hull_begin + 1;
    r->hull.push_back(front.size - 1);
    r->base_cost += r->Base(front).cost * front.count;
    r->base_weight += r->Base(front).weight * front.count;
  }
  r->bound = r->base_cost;
}

bool InOrder(std::span<const MckpItem> items) {
  bool in_order = true;
  for (std::size_t i = 1; i < items.size(); ++i) {
    in_order &= items[i - 1].weight < items[i].weight &&
                items[i - 1].cost > items[i].cost;
  }
  return in_order;
}

// Finds the edge that no longer fits when `room` is spent by falling slope;
// null if all fit. Expected linear time: quickselect by weight.
const Edge* SelectBreakEdge(std::vector<Edge>* edges, std::int64_t room) {
  auto lo = edges->begin();
  auto hi = edges->end();
  while (lo != hi) {
    const double a = lo->slope;
    const double b = lo[(hi - lo) / 2].slope;
    const double c = hi[-1].slope;
    const double pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));
    // Three ways: steeper, as steep, flatter.
    auto steeper = lo;
    auto flatter = hi;
    std::int64_t steeper_weight = 0;
    for (auto it = lo; it != flatter;) {
      if (it->slope > pivot) {
        steeper_weight += it->weight;
        std::swap(*steeper++, *it++);
      } else if (it->slope < pivot) {
        std::swap(*it, *--flatter);
      } else {
        ++it;
      }
    }
    if (steeper_weight > room) {
      hi = steeper;
      continue;
    }
    room -= steeper_weight;
    for (auto it = steeper; it != flatter; ++it) {
      if (it->weight > room) return &*it;
      room -= it->weight;
    }
    lo = flatter;
  }
  return nullptr;
}

// Moves every base to the hull's vertex of least loss, the lightest of equal
// ones. Along a hull the losses fall and then rise, so a binary search on the
// edges' slopes finds it.
void ChooseBases(Relaxation* r) {
  for (Front& front : r->fronts) {
    std::uint32_t lo = front.hull_begin;
    std::uint32_t hi = front.hull_end - 1;
    while (lo < hi) {  // the first vertex whose next edge is not worth it
      const std::uint32_t mid = lo + (hi - lo) / 2;
      const MckpItem& a = front.items[r->hull[mid]];
      const MckpItem& b = front.items[r->hull[mid + 1]];
      const bool worth = Wide{a.cost - b.cost} * r->price_q >
                         r->price_p * Wide{b.weight - a.weight};
      if (worth) {
        lo = mid + 1;
      } else {
        hi = mid;
      }
    }
    front.base = lo;
  }
}

}  // namespace

Result<Relaxation> Relax(std::span<const MckpClass> classes,
                         std::int64_t capacity) {
  Relaxation r;
  r.capacity = capacity;
  r.fronts.reserve(classes.size());
  Wide largest_cost = 0;
  Wide largest_weight = 0;
  Wide cheapest_weight = 0;  // where every class takes its cheapest item
  std::int64_t copies = 0;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const MckpClass& given = classes[k];
    if (given.items.empty()) {
      return Fail(Code::kInvalidArgument, "class {} has no items", k);
    }
    constexpr std::int64_t kMaxCopies =
        std::numeric_limits<std::uint32_t>::max();
    if (given.count < 1 || given.count > kMaxCopies - copies ||
        given.items.size() > static_cast<std::size_t>(kMaxCopies)) {
      return Fail(Code::kInvalidArgument,
                  "class {} has {} copies of {} items; a count from 1 to 2^32 "
                  "- 1 of each is accepted, over all classes",
                  k, given.count, given.items.size());
    }
    copies += given.count;
    std::int64_t max_cost = 0;
    std::int64_t max_weight = 0;
    std::int64_t any_sign = 0;
    for (const MckpItem& item : given.items) {
      any_sign |= item.cost | item.weight;
      max_cost = std::max(max_cost, item.cost);
      max_weight = std::max(max_weight, item.weight);
    }
    if (any_sign < 0) {
      return Fail(Code::kInvalidArgument,
                  "class {} has a negative cost or weight", k);
    }
    largest_cost += Wide{max_cost} * given.count;
    largest_weight += Wide{max_weight} * given.count;

    Front front;
    front.count = given.count;
    if (InOrder(given.items)) {
      front.items = given.items.data();
      front.size = static_cast<std::uint32_t>(given.items.size());
    } else {
      r.sorted_items.emplace_back();
      r.sorted_index.emplace_back();
      SortFront(given.items, &r.sorted_items.back(), &r.sorted_index.back());
      front.items = r.sorted_items.back().data();
      front.index = r.sorted_index.back().data();
      front.size = static_cast<std::uint32_t>(r.sorted_items.back().size());
    }
    front.small_products = Wide{max_cost} * max_weight < kMaxProduct;
    cheapest_weight += Wide{front.items[front.size - 1].weight} * front.count;
    r.fronts.push_back(front);
  }
  if (largest_cost > kMaxTotal || largest_weight > kMaxTotal) {
    return Fail(Code::kOutOfRange,
                "the {} of the classes sum to more than 2^60",
                largest_cost > kMaxTotal ? "largest costs" : "largest weights");
  }

  if (cheapest_weight <= capacity) {
    TakeCheapest(&r);
    return r;
  }
  for (Front& front : r.fronts) AppendHull(&front, &r.hull);

  std::int64_t least_weight = 0;
  std::vector<Edge> edges;
  edges.reserve(r.hull.size());
  for (std::uint32_t k = 0; k < r.fronts.size(); ++k) {
    const Front& front = r.fronts[k];
    least_weight += front.items[0].weight * front.count;
    for (std::uint32_t h = front.hull_begin; h + 1 < front.hull_end; ++h) {
      const MckpItem& a = front.items[r.hull[h]];
      const MckpItem& b = front.items[r.hull[h + 1]];
      edges.push_back({static_cast<double>(a.cost - b.cost) /
                           static_cast<double>(b.weight - a.weight),
                       (b.weight - a.weight) * front.count, k, h});
    }
  }
  if (least_weight > capacity) {
    return Fail(Code::kFailedPrecondition,
                "nothing fits {}; the smallest limit that would do is {}",
                capacity, least_weight);
  }
  const Edge* edge = SelectBreakEdge(&edges, capacity - least_weight);
  UCUDNN_CHECK(edge != nullptr);
  r.break_front = edge->front;
  const Front& front = r.fronts[edge->front];
  const MckpItem& a = front.items[r.hull[edge->from]];
  const MckpItem& b = front.items[r.hull[edge->from + 1]];
  r.price_p = a.cost - b.cost;
  r.price_q = b.weight - a.weight;
  ChooseBases(&r);
  for (const Front& f : r.fronts) {
    r.base_cost += r.Base(f).cost * f.count;
    r.base_weight += r.Base(f).weight * f.count;
  }
  r.bound = Wide{r.base_cost} * r.price_q +
            r.price_p * (Wide{r.base_weight} - capacity);
  return r;
}

void AppendDeviations(const Relaxation& r, const Front& front, Wide gap,
                      std::vector<Deviation>* out) {
  // Losses rise along the hull away from the base, and no item lies below the
  // hull: beyond the first vertex that loses too much, all do.
  std::uint32_t first = front.base;
  while (first > front.hull_begin) {
    --first;
    if (r.Loss(front, front.items[r.hull[first]]) > gap) break;
  }
  std::uint32_t last = front.base;
  while (last + 1 < front.hull_end) {
    ++last;
    if (r.Loss(front, front.items[r.hull[last]]) > gap) break;
  }
  const std::size_t begin = out->size();
  for (std::uint32_t i = r.hull[first]; i <= r.hull[last]; ++i) {
    if (i == r.hull[front.base]) continue;
    const Wide loss = r.Loss(front, front.items[i]);
    if (loss > gap) continue;
    out->push_back({front.items[i].cost - r.Base(front).cost,
                    front.items[i].weight - r.Base(front).weight, loss, i});
  }
  std::sort(out->begin() + static_cast<std::ptrdiff_t>(begin), out->end(),
            [](const Deviation& a, const Deviation& b) {
              return a.loss != b.loss ? a.loss < b.loss : a.weight < b.weight;
            });
}

}  // namespace ucudnn::mckp_internal
