#ifndef UCUDNN_COORDINATOR_REST_HTTP_PLACES_H_
#define UCUDNN_COORDINATOR_REST_HTTP_PLACES_H_

// The places that a listener has for connections. Whoever takes many and sends
// nothing loses them to others: a connection that finds no place takes that of
// the one whose client has kept us waiting longest.

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

namespace ucudnn {

// Thread-safe.
class HttpPlaces {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // What a connection waits for: a request, or for its client to send a body or
  // to read an answer.
  enum class Waits { kNot, kForHead, kForClient };

  explicit HttpPlaces(std::size_t max) : max_(max) {}

  // Gives the socket of a client at `source`, its address, a place; then it
  // waits for a head. If all are taken, or half of all by this source, one
  // connection (of this source) is shut down: that which has waited longest for
  // a head without a byte to read, or if none does, longer than kHttpCrowded
  // for its client. False if there is none.
  bool Take(int socket, const std::string& source);
  // Before the socket is closed.
  void Leave(int socket);
  // Since when the socket, which has a place, waits.
  void Set(int socket, Waits waits, Time since);
  // Whether more than half of the places are taken.
  bool crowded() const;

 private:
  struct Place {
    std::string source;
    Waits waits = Waits::kForHead;
    Time since;
    bool lost = false;
  };
  // Shuts down the one to go, of `source` unless that is null.
  bool ShutDownOne(const std::string* source);

  const std::size_t max_;
  mutable std::mutex mutex_;
  std::unordered_map<int, Place> places_;  // by socket
  std::size_t taken_ = 0;                  // those that are not lost
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_HTTP_PLACES_H_
