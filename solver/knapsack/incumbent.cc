#include "solver/knapsack/incumbent.h"

#include <algorithm>
#include <utility>

namespace ucudnn::mckp_internal {

Incumbent FillAtPrice(Relaxation* r, std::pmr::memory_resource* memory) {
  Incumbent found(memory);
  std::int64_t room = r->capacity - r->base_weight;
  for (const std::uint32_t k : r->at_price) {
    Front& front = r->fronts[k];
    const std::uint32_t next = r->hull[front.base + 1];
    const std::int64_t weight =
        front.items[next].weight - r->Base(front).weight;
    const std::int64_t cost = front.items[next].cost - r->Base(front).cost;
    const std::int64_t copies = std::min(front.count, room / weight);
    room -= weight * copies;
    if (copies == front.count) {
      r->base_weight += weight * copies;
      r->base_cost += cost * copies;
      ++front.base;
    } else if (copies > 0) {
      found.changes.push_back({k, next, copies});
      found.weight += weight * copies;
      found.cost += cost * copies;
    }
  }
  return found;
}

Incumbent Lightest(const Relaxation& r, std::pmr::memory_resource* memory) {
  Incumbent found(memory);
  for (std::uint32_t k = 0; k < r.fronts.size(); ++k) {
    const Front& front = r.fronts[k];
    if (front.base == front.hull_begin) continue;
    found.changes.push_back({k, 0, front.count});
    found.cost += (front.items[0].cost - r.Base(front).cost) * front.count;
    found.weight +=
        (front.items[0].weight - r.Base(front).weight) * front.count;
  }
  return found;
}

Neighbours::Neighbours(const Relaxation& r, const Incumbent& filled,
                       std::pmr::memory_resource* memory)
    : r_(r),
      filled_(filled),
      memory_(memory),
      changed_(r.fronts.size(), 0, memory) {
  for (const Change& change : filled.changes) changed_[change.front] = 1;
}

void Neighbours::ApplyTo(Incumbent* filled) const {
  filled->changes.insert(
      filled->changes.end(), best_.changes.begin(),
      best_.changes.begin() + static_cast<std::ptrdiff_t>(best_.size));
  filled->cost += best_.cost;
  filled->weight += best_.weight;
}

void Neighbours::Greedily() {
  Extend({});
  const std::uint32_t k = r_.break_front;
  const Front& front = r_.fronts[k];
  if (changed_[k] != 0 || front.base + 1 == front.hull_end) return;
  Exchange over;
  Add({k, r_.hull[front.base + 1], 1}, &over);
  changed_[k] = 1;
  Change change;
  if (Cheapest(RoomAfter(over), best_.cost - over.cost, &change)) {
    Add(change, &over);
    best_ = over;
    changed_[change.front] = 1;
    Extend(over);
    changed_[change.front] = 0;
  }
  changed_[k] = 0;
}

void Neighbours::InPairs(std::span<const CoreType> types,
                         std::span<const Deviation> deviations) {
  constexpr std::size_t kMost = 1 << 14;
  constexpr int kTried = 4;
  struct Entry {
    std::int64_t weight;
    std::int64_t cost;
    Change change;
  };
  std::pmr::vector<Entry> entries(memory_);
  entries.reserve(std::min(deviations.size(), kMost));
  for (const CoreType& type : types) {
    if (changed_[type.front] != 0) continue;
    for (std::uint32_t d = type.begin; d < type.end; ++d) {
      if (entries.size() == kMost) break;
      entries.push_back({deviations[d].weight,
                         deviations[d].cost,
                         {type.front, deviations[d].item, 1}});
    }
  }
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.cost > b.cost;
  });
  const std::int64_t room = RoomAfter({});
  std::int64_t best = best_.cost;
  const Entry* first = nullptr;
  const Entry* second = nullptr;
  std::size_t end = entries.size();
  for (const Entry& entry : entries) {
    while (end > 0 && entries[end - 1].weight > room - entry.weight) --end;
    for (std::size_t i = end; i-- > 0 && i + kTried >= end;) {
      const Entry& other = entries[i];
      if (entry.cost + other.cost < best &&
          entry.change.front != other.change.front) {
        best = entry.cost + other.cost;
        first = &entry;
        second = &other;
      }
    }
  }
  if (first == nullptr) return;
  best_ = {};
  Add(first->change, &best_);
  Add(second->change, &best_);
}

std::int64_t Neighbours::RoomAfter(const Exchange& exchange) const {
  return r_.capacity - r_.base_weight - filled_.weight - exchange.weight;
}

void Neighbours::Add(const Change& change, Exchange* exchange) const {
  const Front& front = r_.fronts[change.front];
  exchange->changes[exchange->size++] = change;
  exchange->cost += front.items[change.item].cost - r_.Base(front).cost;
  exchange->weight += front.items[change.item].weight - r_.Base(front).weight;
}

bool Neighbours::Cheapest(std::int64_t room, std::int64_t most,
                          Change* change) const {
  bool improved = false;
  for (std::uint32_t k = 0; k < r_.fronts.size(); ++k) {
    if (changed_[k] != 0) continue;
    const Front& front = r_.fronts[k];
    const MckpItem& base = r_.Base(front);
    const MckpItem* const end = std::upper_bound(
        front.items, front.items + front.size, base.weight + room,
        [](std::int64_t w, const MckpItem& item) { return w < item.weight; });
    if (end == front.items || end[-1].cost - base.cost >= most) continue;
    most = end[-1].cost - base.cost;
    *change = {k, static_cast<std::uint32_t>(end - 1 - front.items), 1};
    improved = true;
  }
  return improved;
}

void Neighbours::Extend(Exchange from) {
  Change change;
  if (!Cheapest(RoomAfter(from), best_.cost - from.cost, &change)) return;
  Add(change, &from);
  best_ = from;
}

}  // namespace ucudnn::mckp_internal
