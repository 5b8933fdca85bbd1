#ifndef UCUDNN_TESTS_INTEGRATION_HISTORY_CLIENTS_H_
#define UCUDNN_TESTS_INTEGRATION_HISTORY_CLIENTS_H_

// Clients of a cluster that record what they send, are told and read. They call
// as agents and jobs do; what they report is made up, so that each value is
// known.

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "coordinator/security/principal.h"
#include "proto/caller.h"
#include "tests/integration/history/history.h"
#include "ucudnn/v1/agent.grpc.pb.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn::test {

// What all clients of a cluster share.
struct Site {
  std::vector<std::string> coordinators;  // host:port
  // How a client of this role and name reaches them.
  std::function<Access(Role role, const std::string& name,
                       const std::string& job_key)>
      access;
  History& history;
  // The kind of device that Measurer has, and those that are planned for.
  std::string made_up_kind;
  std::vector<std::string> kinds;
};

// The network that they plan for has this name and this content.
inline constexpr char kHistoryNetwork[] = "tiny";
inline constexpr char kHistoryCsv[] =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,4,3,3,1,1,1,1,1\n"
    "conv2,4,8,8,4,3,3,1,1,1,1,1\n";

class Client {
 public:
  Client(const Site& site, std::uint32_t seed)
      : site_(site),
        calls_(site.coordinators, site.access(Role::kAdmin, "client", ""), {},
               Waiting::Real()),
        random_(seed) {}
  virtual ~Client() = default;
  // A call or a few; returns how many were answered.
  virtual int Turn() = 0;

 protected:
  using Calls = ServiceCaller<v1::CoordinatorService>;

  static RetryPolicy Policy();
  template <class Request, class Response>
  Result<Response> Call(Calls::Method<Request, Response> method,
                        const Request& request) {
    return calls_.Call(method, request, Policy());
  }
  std::int64_t Random(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution(least, most)(random_);
  }
  // Reads a job; returns how many calls were answered.
  int ReadJob(const std::string& job);
  // A request for a plan of the network.
  static v1::PlanRequest RequestFor(std::int64_t batch,
                                    const std::vector<std::string>& kinds);

  const Site& site_;

 private:
  Calls calls_;
  std::mt19937 random_;
};

// An agent with one device, each of whose measurements is unique.
class Measurer final : public Client {
 public:
  Measurer(const Site& site, std::uint32_t seed, int number);
  int Turn() override;

 private:
  Status Register();
  int Report(const v1::Task& task);

  ServiceCaller<v1::AgentService> agents_;
  const std::string id_;  // of the agent
  const int number_;
  std::int64_t reports_ = 0;
  bool registered_ = false;
};

// Measures and plans ever larger batches, and reads the plans again.
class Planner final : public Client {
 public:
  using Client::Client;
  int Turn() override;

 private:
  int Read();

  std::vector<std::int64_t> plans_;
  std::int64_t turns_ = 0;
};

// A job of two ranks after the other, with new plans.
class JobRunner final : public Client {
 public:
  using Client::Client;
  int Turn() override;

 private:
  template <class Request, class Response>
  Result<Response> CallAsJob(Calls::Method<Request, Response> method,
                             const Request& request) {
    return job_calls_->Call(method, request, Policy());
  }
  int Register();
  int Report();
  int Replan();
  int Adopt();
  int Finish();

  std::string job_;
  std::optional<Calls> job_calls_;     // with the job's key
  std::int64_t turns_ = 0;             // of this job
  std::int64_t adopted_ = 1;           // as was told
  std::int64_t newest_ = 1;            // as was told
  std::vector<std::int64_t> counted_;  // steps of each rank, as was told
  // Steps after these that were reported and not answered; they may be stored.
  std::vector<std::int64_t> unanswered_;
};

// Reads everything through one coordinator.
class Observer final : public Client {
 public:
  using Client::Client;
  int Turn() override;

 private:
  int ReadTasks();
  int ReadPoints(const std::string& kind);
  int ReadJobs();
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_INTEGRATION_HISTORY_CLIENTS_H_
