#include "solver/knapsack/relaxation.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ucudnn::mckp_internal {
namespace {

// One edge of a hull, from the vertex at its own number plus its front's.
struct Edge {
  std::int64_t saved = 0;  // cost
  std::int64_t weight = 0;
  std::uint32_t front = 0;
};

// The key by which edges are selected.
struct Key {
  double slope = 0;         // cost saved per weight
  std::int64_t weight = 0;  // of all copies of its class
  std::uint32_t edge = 0;
};

// The undominated `items`, sorted, and their original indices.
void SortFront(std::span<const MckpItem> items,
               std::pmr::vector<MckpItem>* sorted,
               std::pmr::vector<std::uint32_t>* index) {
  std::vector<std::uint32_t> order(items.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    if (items[a].weight != items[b].weight) {
      return items[a].weight < items[b].weight;
    }
    if (items[a].cost != items[b].cost) {
      return items[a].cost < items[b].cost;
    }
    return a < b;
  });
  const std::size_t begin = sorted->size();
  for (const std::uint32_t i : order) {
    if (sorted->size() > begin && items[i].cost >= sorted->back().cost) {
      continue;
    }
    sorted->push_back(items[i]);
    index->push_back(i);
  }
}

// Whether the middle of three points by rising weight lies on or above the
// line through the others.
bool AboveLine(const MckpItem& a, const MckpItem& b, const MckpItem& c) {
  return Wide{a.cost - b.cost} * (c.weight - b.weight) <=
         Wide{b.cost - c.cost} * (b.weight - a.weight);
}

// Writes the positions of the lower hull's vertices to `hull`, which has room
// for all; returns their end.
std::uint32_t* WriteHull(const Front& front, std::uint32_t* hull) {
  std::uint32_t* end = hull;
  for (std::uint32_t i = 0; i < front.size; ++i) {
    while (end - hull >= 2 && AboveLine(front.items[end[-2]],
                                        front.items[end[-1]], front.items[i])) {
      --end;
    }
    *end++ = i;
  }
  return end;
}

// One front for each kind of class, with its hull, and the edges of all hulls;
// all bases are the lightest items.
std::pmr::vector<Edge> AddFronts(std::span<const MckpClass> classes,
                                 bool in_order, Relaxation* r) {
  const Kinds& kinds = r->kinds;
  std::size_t items = 0;
  for (const std::uint32_t k : kinds.first) items += classes[k].items.size();
  r->fronts.reserve(kinds.first.size());
  r->hull.resize(items);
  if (!in_order) {
    r->sorted_items.reserve(items);  // fronts point to them
    r->sorted_index.reserve(items);
  }
  std::pmr::vector<Edge> edges(r->memory);
  edges.reserve(items - kinds.first.size());
  std::uint32_t* const hull = r->hull.data();
  std::uint32_t hull_end = 0;
  for (std::uint32_t k = 0; k < kinds.first.size(); ++k) {
    const std::span<const MckpItem>& given = classes[kinds.first[k]].items;
    Front& front = r->fronts.emplace_back();
    front.count = kinds.count[k];
    front.items = given.data();
    front.size = static_cast<std::uint32_t>(given.size());
    if (!in_order && !InOrder(given)) {
      const std::size_t begin = r->sorted_items.size();
      SortFront(given, &r->sorted_items, &r->sorted_index);
      front.items = r->sorted_items.data() + begin;
      front.index = r->sorted_index.data() + begin;
      front.size = static_cast<std::uint32_t>(r->sorted_items.size() - begin);
    }
    r->base_cost += front.items[0].cost * front.count;
    r->base_weight += front.items[0].weight * front.count;
    front.hull_begin = hull_end;
    front.base = hull_end;
    hull_end =
        static_cast<std::uint32_t>(WriteHull(front, hull + hull_end) - hull);
    front.hull_end = hull_end;
    for (std::uint32_t h = front.hull_begin; h + 1 < hull_end; ++h) {
      const MckpItem& a = front.items[hull[h]];
      const MckpItem& b = front.items[hull[h + 1]];
      edges.push_back({a.cost - b.cost, b.weight - a.weight, k});
    }
  }
  r->hull.resize(hull_end);
  return edges;
}

// The edge that no longer fits when `room` is spent by falling slope; not all
// edges may fit. Expected linear time: a quickselect by weight that writes both
// partitions to the ends of another buffer, which avoids mispredicted branches.
std::uint32_t SelectBreakEdge(const Relaxation& r, std::span<const Edge> edges,
                              std::int64_t room) {
  std::size_t size = edges.size();
  std::pmr::vector<Key> buffers(2 * size, r.memory);
  Key* keys = buffers.data();
  Key* other = keys + size;
  for (std::uint32_t e = 0; e < size; ++e) {
    const Edge& edge = edges[e];
    keys[e] = {
        static_cast<double>(edge.saved) / static_cast<double>(edge.weight),
        edge.weight * r.fronts[edge.front].count, e};
  }
  const auto steeper = [](const Key& a, const Key& b) {
    return (a.slope > b.slope) | ((a.slope == b.slope) & (a.edge < b.edge));
  };
  while (true) {
    UCUDNN_CHECK(size > 0);
    // The median of three comes last and is the pivot.
    Key& first = keys[0];
    Key& middle = keys[size / 2];
    Key& last = keys[size - 1];
    if (steeper(middle, first)) std::swap(first, middle);
    if (steeper(last, middle)) std::swap(middle, last);
    if (steeper(middle, first)) std::swap(first, middle);
    std::swap(middle, last);
    const Key pivot = last;
    Key* left = other;
    Key* right = other + size - 1;
    std::int64_t weight = 0;  // of the steeper ones
    for (std::size_t i = 0; i + 1 < size; ++i) {
      const bool is_steeper = steeper(keys[i], pivot);
      *left = keys[i];
      right[-1] = keys[i];
      left += is_steeper ? 1 : 0;
      right -= is_steeper ? 0 : 1;
      weight += is_steeper ? keys[i].weight : 0;
    }
    std::swap(keys, other);
    const auto steeper_ones = static_cast<std::size_t>(left - keys);
    if (weight > room) {
      size = steeper_ones;
      continue;
    }
    room -= weight;
    if (pivot.weight > room) return pivot.edge;
    room -= pivot.weight;
    // The remaining parts of both buffers are equally long.
    keys += steeper_ones;
    other += steeper_ones;
    size -= steeper_ones + 1;
  }
}

// Moves every base to the hull's vertex of least loss, the lightest of equal
// ones. Slopes fall along a hull, so the edges worth more than the price lead
// to that vertex.
void ChooseBases(std::span<const Edge> edges, Relaxation* r) {
  const Wide p = r->price_p;
  const Wide q = r->price_q;
  for (const Edge& edge : edges) {
    const Wide value = edge.saved * q;
    const Wide price = p * edge.weight;
    const bool worth = value > price;
    Front& front = r->fronts[edge.front];
    front.base += worth ? 1 : 0;
    r->base_cost -= worth ? edge.saved * front.count : 0;
    r->base_weight += worth ? edge.weight * front.count : 0;
    if (value == price) r->at_price.push_back(edge.front);
  }
}

}  // namespace

Status Relax(std::span<const MckpClass> classes, const Survey& survey,
             std::int64_t capacity, Relaxation* r) {
  r->capacity = capacity;
  r->kinds = KindsOf(classes, r->memory);
  const std::pmr::vector<Edge> edges = AddFronts(classes, survey.in_order, r);
  if (r->base_weight > capacity) {
    return Fail(Code::kFailedPrecondition,
                "nothing fits {}; the smallest limit that would do is {}",
                capacity, r->base_weight);
  }
  const Edge& unfit =
      edges[SelectBreakEdge(*r, edges, capacity - r->base_weight)];
  r->break_front = unfit.front;
  r->price_p = unfit.saved;
  r->price_q = unfit.weight;
  ChooseBases(edges, r);
  r->bound = Wide{r->base_cost} * r->price_q +
             Wide{r->base_weight - capacity} * r->price_p;
  return {};
}

}  // namespace ucudnn::mckp_internal
