#ifndef UCUDNN_COORDINATOR_PLANS_LRU_CACHE_H_
#define UCUDNN_COORDINATOR_PLANS_LRU_CACHE_H_

// Values that were used lately, within a total cost.

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace ucudnn {

// Thread-safe; each call takes O(log n).
template <class Key, class Value>
class LruCache {
 public:
  explicit LruCache(std::size_t max_cost) : max_cost_(max_cost) {}

  // Null if there is none.
  std::shared_ptr<const Value> Find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->value;
  }

  // Replaces the key's value. Drops the values used longest ago until the rest
  // costs at most what the constructor says, this one included.
  void Put(const Key& key, std::shared_ptr<const Value> value,
           std::size_t cost) {
    const std::lock_guard lock(mutex_);
    if (const auto known = by_key_.find(key); known != by_key_.end()) {
      cost_ -= known->second->cost;
      entries_.erase(known->second);
      by_key_.erase(known);
    }
    entries_.push_front({key, std::move(value), cost});
    by_key_.emplace(key, entries_.begin());
    cost_ += cost;
    while (cost_ > max_cost_) {
      cost_ -= entries_.back().cost;
      by_key_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

  void Clear() {
    const std::lock_guard lock(mutex_);
    by_key_.clear();
    entries_.clear();
    cost_ = 0;
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const Value> value;
    std::size_t cost;
  };

  const std::size_t max_cost_;
  std::mutex mutex_;
  std::size_t cost_ = 0;
  std::list<Entry> entries_;  // the last used first
  std::map<Key, typename std::list<Entry>::iterator> by_key_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANS_LRU_CACHE_H_
