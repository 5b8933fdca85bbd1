#ifndef UCUDNN_TESTS_INTEGRATION_HISTORY_HISTORY_H_
#define UCUDNN_TESTS_INTEGRATION_HISTORY_HISTORY_H_

// What the clients of a cluster sent, were told and read, and when: a file of
// JSON lines that history_check reads.
//
//   {"what":"told","from":120,"to":900,"prefix":"","facts":[["plan/1","ab"]]}
//
// A fact is a key with a value. What is stored under a key never changes, but
// under keys that begin with `count/` there are numbers, which never fall.

#include <chrono>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ucudnn::test {

using Facts = std::vector<std::pair<std::string, std::string>>;

struct Event {
  enum class What {
    kSent,  // may be stored from `from_us` on; of a count, at most this much
    kAcknowledged,  // it is stored
    kRead,          // all that is stored under keys that begin with `prefix`
  };
  What what = What::kSent;
  std::int64_t from_us = 0;  // when the call began
  std::int64_t to_us = 0;    // when it returned
  std::string prefix = {};   // of kRead
  Facts facts = {};

  friend bool operator==(const Event&, const Event&) = default;
};

inline constexpr char kCount[] = "count/";

std::string ToLine(const Event& event);
// kDataLoss, with the line.
Result<Event> FromLine(const std::string& line);

// Writes events; thread-safe.
class History {
 public:
  explicit History(const std::string& file) : file_(file) {}

  // Microseconds since some moment.
  static std::int64_t Now() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void Sent(Facts facts) { Add({Event::What::kSent, Now(), Now(), "", facts}); }
  void Acknowledged(std::int64_t from_us, Facts facts) {
    Add({Event::What::kAcknowledged, from_us, Now(), "", std::move(facts)});
  }
  void Read(std::int64_t from_us, std::string prefix, Facts facts) {
    Add({Event::What::kRead, from_us, Now(), std::move(prefix),
         std::move(facts)});
  }

 private:
  void Add(const Event& event) {
    const std::string line = ToLine(event);
    const std::lock_guard lock(mutex_);
    file_ << line << '\n' << std::flush;
  }

  std::mutex mutex_;
  std::ofstream file_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_INTEGRATION_HISTORY_HISTORY_H_
