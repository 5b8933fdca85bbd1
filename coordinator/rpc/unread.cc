#include "coordinator/rpc/unread.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ucudnn {

Unread::Place Unread::Add(const std::string& connection, std::size_t bytes,
                          std::function<void()> end) {
  const std::lock_guard lock(mutex_);
  answers_.push_back({.connection = connection,
                      .bytes = bytes,
                      .end = std::move(end),
                      .since = std::chrono::steady_clock::now()});
  const Place place = std::prev(answers_.end());
  bytes_ += bytes;
  of_connection_[connection] += bytes;
  while (bytes_ > max_bytes_) EndOneOfMost();
  return place;
}

void Unread::Remove(Place place) {
  const std::lock_guard lock(mutex_);
  if (!place->ended) Forget(*place);
  answers_.erase(place);
}

Unread::Count Unread::EndOverdue(std::chrono::milliseconds patience,
                                 std::chrono::milliseconds unread_after) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  Count count;
  for (Answer& answer : answers_) {
    if (answer.ended) continue;
    if (now - answer.since >= patience) {
      End(answer);
    } else if (now - answer.since >= unread_after) {
      ++count.unread;
    }
  }
  count.ended = std::exchange(ended_, 0);
  return count;
}

void Unread::EndOneOfMost() {
  const auto most = std::ranges::max_element(
      of_connection_, {}, [](const auto& entry) { return entry.second; });
  End(*std::ranges::find_if(answers_, [&](const Answer& answer) {
    return !answer.ended && answer.connection == most->first;
  }));
}

void Unread::End(Answer& answer) {
  answer.end();
  answer.ended = true;
  ++ended_;
  Forget(answer);
}

void Unread::Forget(const Answer& answer) {
  bytes_ -= answer.bytes;
  const auto own = of_connection_.find(answer.connection);
  own->second -= answer.bytes;
  if (own->second == 0) of_connection_.erase(own);
}

}  // namespace ucudnn
