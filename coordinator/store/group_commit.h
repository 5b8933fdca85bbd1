#ifndef UCUDNN_COORDINATOR_STORE_GROUP_COMMIT_H_
#define UCUDNN_COORDINATOR_STORE_GROUP_COMMIT_H_

// Has calls share transactions: those that arrive while a transaction runs are
// done together in the next one, so that each need not wait for a commit of its
// own. A call that arrives alone waits for nobody. Where several transactions
// may run at once, another begins once enough calls wait for it.
//
//   GroupCommit<Report, Result<Receipt>> reports(StoreReports);
//   const Result<Receipt> receipt = reports.Run(report);

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/service/call.h"

namespace ucudnn {

// Thread-safe. Must outlive its calls.
template <class Item, class Answer>
class GroupCommit {
 public:
  // Does the first of the items, as many as suit one transaction but at least
  // one, and returns the answers to these, in order.
  using Commit =
      std::function<std::vector<Answer>(std::span<const Item* const> items)>;

  // So many transactions may run at once.
  explicit GroupCommit(Commit commit, std::size_t at_once = 1)
      : commit_(std::move(commit)), at_once_(at_once) {}

  // Returns once the item is done, by this thread or by that of another call.
  Answer Run(const Item& item) {
    Waiting mine{.item = &item};
    std::unique_lock lock(mutex_);
    queue_.push_back(&mine);
    ++open_;
    while (!mine.answer) {
      if (mine.queued && MayCommit()) {
        CommitGroup(lock);
      } else {
        mine.changed.wait(lock);
      }
    }
    --open_;
    return *std::move(mine.answer);
  }

  // How many calls are not done yet.
  std::size_t open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }

 private:
  struct Waiting {
    const Item* item;
    bool queued = true;  // is in queue_
    std::optional<Answer> answer = {};
    std::condition_variable changed = {};
  };

  bool MayCommit() const {
    return committing_ == 0 ||
           (committing_ < at_once_ && queue_.size() >= kWorthATransaction);
  }

  // Takes all that wait.
  void CommitGroup(std::unique_lock<std::mutex>& lock) {
    std::deque<Waiting*> group;
    group.swap(queue_);
    std::vector<const Item*> items;
    items.reserve(group.size());
    for (Waiting* waiting : group) {
      waiting->queued = false;
      items.push_back(waiting->item);
    }
    ++committing_;
    lock.unlock();
    std::vector<Answer> answers = [&] {
      const Call::Shared for_all;
      return commit_(items);
    }();
    lock.lock();
    --committing_;
    UCUDNN_CHECK(!answers.empty() && answers.size() <= items.size());
    for (Answer& answer : answers) {
      group.front()->answer = std::move(answer);
      group.front()->changed.notify_one();
      group.pop_front();
    }
    for (Waiting* waiting : group) waiting->queued = true;
    queue_.insert(queue_.begin(), group.begin(), group.end());
    if (!queue_.empty()) queue_.front()->changed.notify_one();
  }

  // A transaction for fewer items costs more than it helps while another runs.
  static constexpr std::size_t kWorthATransaction = 16;

  const Commit commit_;
  const std::size_t at_once_;
  mutable std::mutex mutex_;
  std::deque<Waiting*> queue_;  // taken by no transaction yet
  std::size_t committing_ = 0;  // transactions that run
  std::size_t open_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_GROUP_COMMIT_H_
