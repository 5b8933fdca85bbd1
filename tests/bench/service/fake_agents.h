#ifndef UCUDNN_TESTS_BENCH_SERVICE_FAKE_AGENTS_H_
#define UCUDNN_TESTS_BENCH_SERVICE_FAKE_AGENTS_H_

// Many agents in one thread, each with one device and, unless told otherwise,
// one connection (unary_calls.h). Each registers, sends heartbeats and asks for
// work at the pace that the coordinator sets, and waits and comes back if the
// coordinator goes away, all as ucudnn-agent does; but they measure nothing.

#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "tests/bench/service/load.h"
#include "tests/bench/service/unary_calls.h"

namespace ucudnn::test {

struct FakeAgentsOptions {
  int agents = 0;
  int connections = 0;
  // The agents' first calls are spread over it.
  std::chrono::duration<double> start{20};
  UnaryCalls::NewTls tls;
};

// What agent i is called.
std::string FakeAgentName(int i);

class FakeAgents {
 public:
  struct Counts {
    std::int64_t registered = 0;
    Outcome heartbeats;
    Outcome polls;
  };

  // Of a coordinator on this port of this host.
  FakeAgents(int port, const FakeAgentsOptions& options);
  ~FakeAgents();

  // Lets them live for so long, or until `enough` is true.
  void Run(std::chrono::duration<double> time,
           const std::function<bool()>& enough = {});

  // What happened since the last call of Take.
  Counts Take();
  // How many were answered since the last call of Take.
  std::int64_t heard() const { return heard_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class What { kRegister, kBeat, kPoll };
  struct Agent;
  struct Due {
    Clock::time_point when;
    int agent;
    What what;
    friend bool operator>(const Due& a, const Due& b) {
      return a.when > b.when;
    }
  };

  void Later(int agent, What what, std::chrono::duration<double> wait);
  void Start(const Due& due);
  void Answered(const Due& call, Clock::time_point started,
                const UnaryCalls::Answer& answer);

  std::size_t connections_;
  UnaryCalls calls_;
  std::vector<Agent> agents_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::int64_t heard_ = 0;
  std::int64_t round_ = 1;  // raised by Take
  Counts counts_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_BENCH_SERVICE_FAKE_AGENTS_H_
