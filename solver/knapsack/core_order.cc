// Finds a knapsack's core and orders it before and during the search: merges
// equal classes, sorts classes by distance from the price, and keeps the best
// remaining slopes after each.

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "solver/knapsack/core.h"

namespace ucudnn::mckp_internal {

void FindCore(const Relaxation& r, Wide gap, std::pmr::vector<CoreType>* types,
              std::pmr::vector<Deviation>* deviations) {
  const std::uint32_t* const hull = r.hull.data();
  for (std::uint32_t k = 0; k < r.fronts.size(); ++k) {
    const Front& front = r.fronts[k];
    const MckpItem* const items = front.items;
    const std::uint32_t base_item = hull[front.base];
    const MckpItem base = items[base_item];
    // Losses rise along the hull away from the base, and no item lies below the
    // hull, so all items beyond the first vertex that loses too much do too.
    std::uint32_t first = 0;
    for (std::uint32_t h = front.base; h-- > front.hull_begin;) {
      if (r.Loss(base, items[hull[h]]) > gap) {
        first = hull[h] + 1;
        break;
      }
    }
    std::uint32_t end = front.size;
    for (std::uint32_t h = front.base + 1; h < front.hull_end; ++h) {
      if (r.Loss(base, items[hull[h]]) > gap) {
        end = hull[h];
        break;
      }
    }
    if (end - first < 2) continue;  // the base alone
    const auto begin = deviations->end() - deviations->begin();
    for (std::uint32_t i = first; i < end; ++i) {
      if (i == base_item) continue;
      const Wide loss = r.Loss(base, items[i]);
      if (loss > gap) continue;
      deviations->push_back(
          {items[i].cost - base.cost, items[i].weight - base.weight, loss, i});
    }
    if (begin == std::ssize(*deviations)) continue;
    std::sort(deviations->begin() + begin, deviations->end(),
              [](const Deviation& a, const Deviation& b) {
                return a.loss != b.loss ? a.loss < b.loss : a.weight < b.weight;
              });
    CoreType& type = types->emplace_back();
    type.front = k;
    type.begin = static_cast<std::uint32_t>(begin);
    type.end = static_cast<std::uint32_t>(deviations->size());
    type.count = front.count;
  }
}

// Merges types with the same deviations into one with all their copies.
void Core::MergeAlikeTypes() {
  const auto compare = [this](const CoreType& a, const CoreType& b) {
    if (a.end - a.begin != b.end - b.begin) {
      return a.end - a.begin < b.end - b.begin ? -1 : 1;
    }
    for (std::uint32_t i = 0; i < a.end - a.begin; ++i) {
      const Deviation& x = deviations_[a.begin + i];
      const Deviation& y = deviations_[b.begin + i];
      if (x.weight != y.weight) return x.weight < y.weight ? -1 : 1;
      if (x.cost != y.cost) return x.cost < y.cost ? -1 : 1;
    }
    return 0;
  };
  std::ranges::sort(types_, [&](const CoreType& a, const CoreType& b) {
    const int order = compare(a, b);
    return order != 0 ? order < 0 : a.front < b.front;
  });
  // The heads come first; the merged types follow, linked.
  std::pmr::vector<CoreType> heads(relaxation_.memory);
  std::pmr::vector<CoreType> others(relaxation_.memory);
  for (const CoreType& type : types_) {
    if (!heads.empty() && compare(heads.back(), type) == 0) {
      others.push_back(type);
      others.back().merged_next = heads.back().merged_next;
      heads.back().merged_next = static_cast<std::uint32_t>(others.size() - 1);
    } else {
      heads.push_back(type);
    }
  }
  merged_types_ = std::move(others);
  types_ = std::move(heads);
  for (CoreType& type : types_) {
    for (std::uint32_t i = type.merged_next; i != CoreType::kNone;
         i = merged_types_[i].merged_next) {
      type.count += merged_types_[i].count;
    }
  }
}

// The steepest slope at which a type's deviations save, and the flattest at
// which they shed.
Core::Outlook Core::OutlookOf(const CoreType& type) const {
  Outlook outlook{{0, 1}, {1, 0}};
  for (std::uint32_t d = type.begin; d < type.end; ++d) {
    const Deviation& deviation = deviations_[d];
    if (deviation.weight > 0) {
      const Slope slope{-deviation.cost, deviation.weight};
      if (Less(outlook.save, slope)) outlook.save = slope;
    } else {
      const Slope slope{deviation.cost, -deviation.weight};
      if (Less(slope, outlook.shed)) outlook.shed = slope;
    }
  }
  return outlook;
}

// Nearest to the price first, so that the slopes of the rest move away from it.
void Core::SortTypes() {
  const double price = static_cast<double>(relaxation_.price_p) /
                       static_cast<double>(relaxation_.price_q);
  std::pmr::vector<std::pair<double, CoreType>> keyed(relaxation_.memory);
  keyed.reserve(types_.size());
  for (const CoreType& type : types_) {
    const Outlook outlook = OutlookOf(type);
    const double save = static_cast<double>(outlook.save.cost) /
                        static_cast<double>(outlook.save.weight);
    const double distance =
        outlook.shed.weight == 0
            ? price - save
            : std::min(price - save,
                       static_cast<double>(outlook.shed.cost) /
                               static_cast<double>(outlook.shed.weight) -
                           price);
    keyed.emplace_back(distance, type);
  }
  // Equally near types that add weight and those that remove it should mix.
  const auto shuffled = [](const CoreType& type) {
    return type.front * 2654435761U;  // a permutation
  };
  std::ranges::sort(keyed, [&](const auto& a, const auto& b) {
    return std::tuple(a.first, shuffled(a.second)) <
           std::tuple(b.first, shuffled(b.second));
  });
  for (std::size_t i = 0; i < types_.size(); ++i) types_[i] = keyed[i].second;
}

void Core::UpdateOutlooks() {
  outlooks_.resize(types_.size() + 1);
  outlooks_.back() = {{0, 1}, {1, 0}};
  for (std::size_t i = types_.size(); i-- > 0;) {
    outlooks_[i] = OutlookOf(types_[i]);
    const Outlook& later = outlooks_[i + 1];
    if (Less(outlooks_[i].save, later.save)) outlooks_[i].save = later.save;
    if (Less(later.shed, outlooks_[i].shed)) outlooks_[i].shed = later.shed;
  }
}

}  // namespace ucudnn::mckp_internal
