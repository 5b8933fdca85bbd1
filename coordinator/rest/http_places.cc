#include "coordinator/rest/http_places.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "coordinator/limits.h"

namespace ucudnn {
namespace {

bool HasUnread(int socket) {
  int bytes = 0;
  return ioctl(socket, FIONREAD, &bytes) == 0 && bytes > 0;
}

}  // namespace

bool HttpPlaces::Take(int socket, const std::string& source) {
  const std::lock_guard lock(mutex_);
  const auto own = static_cast<std::size_t>(
      std::ranges::count_if(places_, [&](const auto& entry) {
        return !entry.second.lost && entry.second.source == source;
      }));
  const bool has_share = 2 * own >= max_;
  if ((has_share || taken_ >= max_) &&
      !ShutDownOne(has_share ? &source : nullptr)) {
    return false;
  }
  places_[socket] = {.source = source,
                     .since = std::chrono::steady_clock::now()};
  ++taken_;
  return true;
}

bool HttpPlaces::ShutDownOne(const std::string* source) {
  const Time late = std::chrono::steady_clock::now() - kHttpCrowded;
  // Those that wait for a head go first.
  const auto rank = [](const Place& place) {
    return std::pair(place.waits != Waits::kForHead, place.since);
  };
  std::pair<const int, Place>* chosen = nullptr;
  for (auto& entry : places_) {
    const Place& place = entry.second;
    if (place.lost || place.waits == Waits::kNot ||
        (place.waits == Waits::kForClient && place.since > late) ||
        (source != nullptr && place.source != *source)) {
      continue;
    }
    if (chosen != nullptr && rank(chosen->second) < rank(place)) continue;
    // Its thread has not come to reading it yet.
    if (place.waits == Waits::kForHead && HasUnread(entry.first)) continue;
    chosen = &entry;
  }
  if (chosen == nullptr) return false;
  chosen->second.lost = true;
  --taken_;
  shutdown(chosen->first, SHUT_RDWR);
  return true;
}

void HttpPlaces::Leave(int socket) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(socket);
  if (!place->second.lost) --taken_;
  places_.erase(place);
}

void HttpPlaces::Set(int socket, Waits waits, Time since) {
  const std::lock_guard lock(mutex_);
  Place& place = places_.at(socket);
  place.waits = waits;
  place.since = since;
}

bool HttpPlaces::crowded() const {
  const std::lock_guard lock(mutex_);
  return 2 * taken_ > max_;
}

}  // namespace ucudnn
