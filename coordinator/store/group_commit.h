#ifndef UCUDNN_COORDINATOR_STORE_GROUP_COMMIT_H_
#define UCUDNN_COORDINATOR_STORE_GROUP_COMMIT_H_

// Has calls share transactions: those that arrive while a transaction runs are
// done together in the next one, so that each need not wait for a commit of its
// own. A call that arrives alone waits for nobody.
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

  explicit GroupCommit(Commit commit) : commit_(std::move(commit)) {}

  // Returns once the item is done, by this thread or by that of another call.
  Answer Run(const Item& item) {
    Waiting mine{.item = &item};
    std::unique_lock lock(mutex_);
    queue_.push_back(&mine);
    while (!mine.answer) {
      if (committing_ || queue_.front() != &mine) {
        mine.changed.wait(lock);
      } else {
        CommitGroup(lock);
      }
    }
    return *std::move(mine.answer);
  }

  // How many calls are not done yet.
  std::size_t open() const {
    const std::lock_guard lock(mutex_);
    return queue_.size();
  }

 private:
  struct Waiting {
    const Item* item;
    std::optional<Answer> answer = {};
    std::condition_variable changed = {};
  };

  void CommitGroup(std::unique_lock<std::mutex>& lock) {
    std::vector<const Item*> items;
    items.reserve(queue_.size());
    for (const Waiting* waiting : queue_) items.push_back(waiting->item);
    committing_ = true;
    lock.unlock();
    std::vector<Answer> answers = [&] {
      const Call::Shared for_all;
      return commit_(items);
    }();
    lock.lock();
    committing_ = false;
    UCUDNN_CHECK(!answers.empty() && answers.size() <= items.size());
    for (Answer& answer : answers) {
      queue_.front()->answer = std::move(answer);
      queue_.front()->changed.notify_one();
      queue_.pop_front();
    }
    if (!queue_.empty()) queue_.front()->changed.notify_one();
  }

  const Commit commit_;
  mutable std::mutex mutex_;
  std::deque<Waiting*> queue_;
  bool committing_ = false;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_GROUP_COMMIT_H_
