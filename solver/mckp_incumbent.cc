#include "solver/mckp_incumbent.h"

#include <algorithm>
#include <utility>

namespace ucudnn::mckp_internal {

Incumbent FillAtPrice(Relaxation* r) {
  Incumbent found;
  std::int64_t room = r->capacity - r->base_weight;
  for (std::uint32_t k = 0; k < r->fronts.size(); ++k) {
    Front& front = r->fronts[k];
    while (front.base + 1 < front.hull_end) {
      const std::uint32_t next = r->hull[front.base + 1];
      if (r->Loss(front, front.items[next]) != 0) break;
      const std::int64_t weight =
          front.items[next].weight - r->Base(front).weight;
      const std::int64_t cost = front.items[next].cost - r->Base(front).cost;
      const std::int64_t copies = std::min(front.count, room / weight);
      room -= weight * copies;
      if (copies == front.count) {
        r->base_weight += weight * copies;
        r->base_cost += cost * copies;
        ++front.base;
        continue;
      }
      if (copies > 0) {
        found.changes.push_back({k, next, copies});
        found.weight += weight * copies;
        found.cost += cost * copies;
      }
      break;
    }
  }
  return found;
}

Incumbent Lightest(const Relaxation& r) {
  Incumbent found;
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

Neighbours::Neighbours(const Relaxation& r, const Incumbent& filled)
    : r_(r), filled_(filled), changed_(r.fronts.size(), 0) {
  for (const Change& change : filled.changes) changed_[change.front] = 1;
}

void Neighbours::Greedily(Incumbent* found) {
  Extend(filled_, found);
  if (!r_.break_front.has_value() || changed_[*r_.break_front] != 0) return;
  const std::uint32_t k = *r_.break_front;
  const Front& front = r_.fronts[k];
  if (front.base + 1 == front.hull_end) return;
  Incumbent over = filled_;
  Add({k, r_.hull[front.base + 1], 1}, &over);
  changed_[k] = 1;
  Change change;
  if (Cheapest(RoomOf(over), found->cost - over.cost, &change)) {
    Add(change, &over);
    *found = over;
    changed_[change.front] = 1;
    Extend(over, found);
    changed_[change.front] = 0;
  }
  changed_[k] = 0;
}

void Neighbours::InPairs(const std::vector<CoreType>& types,
                         const std::vector<Deviation>& deviations,
                         Incumbent* found) {
  constexpr std::size_t kMost = 1 << 14;
  constexpr int kTried = 4;
  struct Entry {
    std::int64_t weight;
    std::int64_t cost;
    Change change;
  };
  std::vector<Entry> entries;
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
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.cost > b.cost;
  });
  const std::int64_t room = RoomOf(filled_);
  std::int64_t best = found->cost - filled_.cost;
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
  *found = filled_;
  Add(first->change, found);
  Add(second->change, found);
}

std::int64_t Neighbours::RoomOf(const Incumbent& incumbent) const {
  return r_.capacity - r_.base_weight - incumbent.weight;
}

void Neighbours::Add(const Change& change, Incumbent* incumbent) const {
  const Front& front = r_.fronts[change.front];
  incumbent->changes.push_back(change);
  incumbent->cost += front.items[change.item].cost - r_.Base(front).cost;
  incumbent->weight += front.items[change.item].weight - r_.Base(front).weight;
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

void Neighbours::Extend(const Incumbent& from, Incumbent* found) const {
  Change change;
  if (!Cheapest(RoomOf(from), found->cost - from.cost, &change)) return;
  Incumbent extended = from;
  Add(change, &extended);
  *found = std::move(extended);
}

}  // namespace ucudnn::mckp_internal
