#include "solver/memory/memory_pool.h"

#include <algorithm>
#include <iterator>

#include "base/result.h"

namespace ucudnn {

MemoryPool::MemoryPool(Bytes capacity, Fit fit, Bytes unit)
    : fit_(fit),
      unit_(fit == Fit::kCount ? 1 : unit.count()),
      available_(capacity.count() / unit_ * unit_) {
  if (available_ > 0) free_[0] = available_;
}

std::int64_t MemoryPool::Rounded(Bytes size) const {
  return (size.count() + unit_ - 1) / unit_ * unit_;
}

std::optional<MemoryRange> MemoryPool::Take(Bytes size, Nanoseconds now) {
  const std::optional<MemoryRange> range = Find(size, now);
  if (range) TakeAt(*range);
  return range;
}

std::optional<MemoryRange> MemoryPool::Find(Bytes size, Nanoseconds now) {
  Settle(now);
  const std::int64_t wanted = Rounded(size);
  if (wanted == 0) return MemoryRange{Bytes(0), Bytes(0)};
  if (fit_ == Fit::kCount) {
    if (wanted > available_) return std::nullopt;
    return MemoryRange{Bytes(0), Bytes(wanted)};
  }
  auto chosen = free_.end();
  auto first = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < wanted) continue;
    if (first == free_.end()) first = it;
    if (fit_ == Fit::kFirst) break;
    if (fit_ == Fit::kExactThenFirst) {
      if (it->second != wanted) continue;
      chosen = it;
      break;
    }
    if (chosen == free_.end() || it->second < chosen->second) chosen = it;
  }
  if (chosen == free_.end()) chosen = first;
  if (chosen == free_.end()) return std::nullopt;
  return MemoryRange{Bytes(chosen->first), Bytes(wanted)};
}

void MemoryPool::TakeAt(MemoryRange range) {
  const std::int64_t size = Rounded(range.bytes);
  if (size == 0) return;
  UCUDNN_CHECK(available_ >= size);
  available_ -= size;
  if (fit_ == Fit::kCount) return;
  const std::int64_t low = range.offset.count();
  auto it = free_.upper_bound(low);
  UCUDNN_CHECK(it != free_.begin());
  --it;
  const std::int64_t start = it->first;
  const std::int64_t end = start + it->second;
  UCUDNN_CHECK(low + size <= end);
  free_.erase(it);
  if (start < low) free_[start] = low - start;
  if (low + size < end) free_[low + size] = end - low - size;
}

void MemoryPool::Release(MemoryRange range, Nanoseconds when,
                         std::size_t event) {
  pending_.emplace(when, Pending{range, event, when});
}

void MemoryPool::TakeReleased(MemoryRange range) {
  const std::int64_t low = range.offset.count();
  const std::int64_t high = low + Rounded(range.bytes);
  for (auto it = pending_.begin(); it != pending_.end();) {
    const Pending pending = it->second;
    const std::int64_t start = pending.range.offset.count();
    const std::int64_t end = start + Rounded(pending.range.bytes);
    if (end <= low || start >= high) {
      ++it;
      continue;
    }
    it = pending_.erase(it);
    const auto part = [](std::int64_t from, std::int64_t to) {
      return MemoryRange{Bytes(from), Bytes(to - from)};
    };
    Free(part(std::max(start, low), std::min(end, high)));
    // What lies outside is still to be released.
    if (start < low) Release(part(start, low), pending.when, pending.event);
    if (end > high) Release(part(high, end), pending.when, pending.event);
  }
  TakeAt(range);
}

std::vector<MemoryPool::Pending> MemoryPool::Releases() const {
  std::vector<Pending> releases;
  for (const auto& [when, pending] : pending_) releases.push_back(pending);
  return releases;
}

std::optional<std::size_t> MemoryPool::NextRelease() const {
  if (pending_.empty()) return std::nullopt;
  return pending_.begin()->second.event;
}

void MemoryPool::Settle(Nanoseconds now) {
  while (!pending_.empty() && pending_.begin()->first <= now) {
    Free(pending_.begin()->second.range);
    pending_.erase(pending_.begin());
  }
}

void MemoryPool::Free(MemoryRange range) {
  std::int64_t size = Rounded(range.bytes);
  available_ += size;
  if (fit_ == Fit::kCount || size == 0) return;
  std::int64_t low = range.offset.count();
  auto next = free_.lower_bound(low);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == low) {
      low = before->first;
      size += before->second;
      free_.erase(before);
    }
  }
  if (next != free_.end() && low + size == next->first) {
    size += next->second;
    free_.erase(next);
  }
  free_[low] = size;
}

Bytes MemoryPool::LargestFree(Nanoseconds now) {
  Settle(now);
  if (fit_ == Fit::kCount) return Bytes(available_);
  std::int64_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max(largest, size);
  return Bytes(largest);
}

}  // namespace ucudnn
