#ifndef UCUDNN_TESTS_BENCH_SERVICE_FAKE_AGENTS_H_
#define UCUDNN_TESTS_BENCH_SERVICE_FAKE_AGENTS_H_

// Many agents in one thread, each with one device and, unless told otherwise,
// one connection. Each registers, sends heartbeats and asks for work at the
// pace that the coordinator sets, and waits and comes back if the coordinator
// goes away, all as ucudnn-agent does; but they measure nothing.

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "tests/bench/service/load.h"
#include "ucudnn/v1/agent.grpc.pb.h"

namespace ucudnn::test {

struct FakeAgentsOptions {
  int agents = 0;
  int connections = 0;
  // The agents' first calls are spread over it.
  std::chrono::duration<double> start{20};
  // Over TLS: the coordinator's authority, and a token for each agent.
  std::string ca;
  std::vector<std::string> tokens;
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

  FakeAgents(const std::string& address, const FakeAgentsOptions& options);
  // Waits for the calls that are open.
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
  struct Call;
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
  // Waits for an answer until `end`; false if none came.
  bool Finish(Clock::time_point end);
  void Answered(const Call& call);

  std::vector<std::unique_ptr<v1::AgentService::Stub>> stubs_;
  grpc::CompletionQueue queue_;
  std::vector<Agent> agents_;
  std::vector<std::string> tokens_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::int64_t open_ = 0;
  std::int64_t heard_ = 0;
  std::int64_t round_ = 1;  // raised by Take
  Counts counts_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_BENCH_SERVICE_FAKE_AGENTS_H_
