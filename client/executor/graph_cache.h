#ifndef UCUDNN_CLIENT_EXECUTOR_GRAPH_CACHE_H_
#define UCUDNN_CLIENT_EXECUTOR_GRAPH_CACHE_H_

// The captured graphs of one kernel. A graph holds the addresses and scalars it
// was captured with, so there is one for each set of operands that comes again:
//
//   if (Graph* graph = cache.Find(key)) {
//     graph->Launch();
//   } else if (cache.Wants(key)) {
//     cache.Put(key, Capture());
//   } else {
//     Enqueue();
//   }
//
// Operands are captured when they come for the second time. A kernel whose
// operands never come again is given up. One whose operands come again rarely
// captures little: capturing costs as much as some hundred launches gain.
//
// Neither class reads a clock or allocates on a hit. GraphCache is used by one
// thread at a time, GraphBudget by any.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// The device memory that graphs may take together. Memory of destroyed graphs
// stays with the driver, which gives it to the next ones, so it counts on.
class GraphBudget {
 public:
  explicit GraphBudget(Bytes most) : most_(most.count()) {}
  // Whether there is any left; a graph's size is known when it was made.
  bool has_room() const { return taken_ < most_; }
  void Take(Bytes memory) { taken_ += memory.count(); }
  Bytes taken() const { return Bytes(taken_); }
  Bytes most() const { return Bytes(most_); }

 private:
  const std::int64_t most_;
  std::atomic<std::int64_t> taken_ = 0;
};

// What a graph depends on besides its kernel.
struct GraphKey {
  ConvArgs args;
  const void* workspace = nullptr;
  friend bool operator==(const GraphKey&, const GraphKey&) = default;
};

template <class Graph>
class GraphCache {
 public:
  // Keeps at most `most` graphs.
  explicit GraphCache(std::size_t most) : most_(most) {}

  // Null if there is none. Linear in the number of graphs.
  Graph* Find(const GraphKey& key) {
    ++finds_;
    for (Entry& entry : entries_) {
      if (entry.key != key) continue;
      entry.used = finds_;
      ++hits_;
      return entry.graph.get();
    }
    return nullptr;
  }

  // After Find found nothing: whether a graph should be captured.
  bool Wants(const GraphKey& key) {
    if (given_up_) return false;
    if (hits_ == 0 && finds_ >= kPatience) {
      GiveUp();
      return false;
    }
    if (std::ranges::find(seen_, key) == seen_.end()) {
      Remember(key);
      return false;
    }
    return captured_ < kFree + hits_ && (entries_.size() < most_ || Stale());
  }

  // The graph that Put would drop, for updating it; null if there is room.
  std::unique_ptr<Graph> TakeStale() {
    if (entries_.size() < most_) return nullptr;
    const auto oldest = Oldest();
    std::unique_ptr<Graph> graph = std::move(oldest->graph);
    entries_.erase(oldest);
    return graph;
  }
  Graph* Put(const GraphKey& key, std::unique_ptr<Graph> graph) {
    (void)TakeStale();
    ++captured_;
    entries_.push_back({key, std::move(graph), finds_});
    return entries_.back().graph.get();
  }

  // Drops all graphs and begins anew, because the kernel has changed.
  void Clear() {
    entries_.clear();
    seen_.clear();
    given_up_ = false;
  }
  // Drops all graphs and captures none until Clear.
  void GiveUp() {
    Clear();
    given_up_ = true;
  }
  bool given_up() const { return given_up_; }

  std::size_t size() const { return entries_.size(); }
  std::uint64_t captured() const { return captured_; }
  std::uint64_t finds() const { return finds_; }
  std::uint64_t hits() const { return hits_; }

 private:
  struct Entry {
    GraphKey key;
    std::unique_ptr<Graph> graph;
    std::uint64_t used = 0;  // the number of the last find
  };

  // A kernel without a hit until then is given up.
  static constexpr std::uint64_t kPatience = 256;
  // So many graphs are captured without a hit; then each needs another one.
  static constexpr std::uint64_t kFree = 16;
  // Operands that came once, of which the first are forgotten.
  static constexpr std::size_t kMostSeen = 64;

  auto Oldest() { return std::ranges::min_element(entries_, {}, &Entry::used); }
  // Whether the oldest graph has been of no use for long. Otherwise operands
  // that come in turns, more than there is room for, would replace each other's
  // graphs for ever.
  bool Stale() { return finds_ - Oldest()->used > 4 * most_; }

  void Remember(const GraphKey& key) {
    seen_.reserve(kMostSeen);
    if (seen_.size() < kMostSeen) {
      seen_.push_back(key);
    } else {
      seen_[next_seen_++ % kMostSeen] = key;
    }
  }

  const std::size_t most_;
  std::vector<Entry> entries_;
  std::vector<GraphKey> seen_;
  std::size_t next_seen_ = 0;
  std::uint64_t finds_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t captured_ = 0;
  bool given_up_ = false;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_EXECUTOR_GRAPH_CACHE_H_
