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
#include <memory>
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
    const auto mine = std::make_shared<Waiting>(&item);
    std::unique_lock lock(mutex_);
    queue_.push_back(mine);
    ++open_;
    while (!mine->answer) {
      if (mine->queued && MayCommit()) {
        CommitGroup(lock);
      } else {
        mine->changed.wait(lock);
      }
    }
    --open_;
    return *std::move(mine->answer);
  }

  // How many calls are not done yet.
  std::size_t open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }

 private:
  struct Waiting {
    explicit Waiting(const Item* waiting) : item(waiting) {}

    const Item* item;
    bool queued = true;  // is in queue_
    std::optional<Answer> answer;
    std::condition_variable changed;
  };
  // Shared by the call and the thread that does it, which wakes the call after
  // releasing the mutex; by then the call may have returned.
  using Queue = std::deque<std::shared_ptr<Waiting>>;

  bool MayCommit() const {
    return committing_ == 0 ||
           (committing_ < at_once_ && queue_.size() >= kWorthATransaction);
  }

  // Takes all that wait.
  void CommitGroup(std::unique_lock<std::mutex>& lock) {
    Queue group;
    group.swap(queue_);
    std::vector<const Item*> items;
    items.reserve(group.size());
    for (const auto& waiting : group) {
      waiting->queued = false;
      items.push_back(waiting->item);
    }
    ++committing_;
    lock.unlock();
    std::vector<Answer> answers = [&] {
      const Call::Shared for_all;
      return commit_(items);
    }();
    UCUDNN_CHECK(!answers.empty() && answers.size() <= items.size());
    lock.lock();
    --committing_;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      group[i]->answer = std::move(answers[i]);
    }
    const auto left =
        group.begin() + static_cast<std::ptrdiff_t>(answers.size());
    for (auto it = left; it != group.end(); ++it) (*it)->queued = true;
    queue_.insert(queue_.begin(), left, group.end());
    group.erase(left, group.end());
    if (!queue_.empty()) group.push_back(queue_.front());
    // A call that is woken while the mutex is held would wait for the mutex.
    lock.unlock();
    for (const auto& told : group) told->changed.notify_one();
    lock.lock();
  }

  // A transaction for fewer items costs more than it helps while another runs.
  static constexpr std::size_t kWorthATransaction = 16;

  const Commit commit_;
  const std::size_t at_once_;
  mutable std::mutex mutex_;
  Queue queue_;                 // taken by no transaction yet
  std::size_t committing_ = 0;  // transactions that run
  std::size_t open_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_GROUP_COMMIT_H_
