#include "tests/bench/service/fake_agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/service/backoff.h"
#include "tests/bench/service/served.h"

namespace ucudnn::test {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds kPatience{10};        // as agents have
constexpr double kReconnectSpread = 5;  // seconds, as of agents

Seconds FromMs(std::int64_t ms) {
  return std::chrono::duration<double, std::milli>(ms);
}

}  // namespace

struct FakeAgents::Agent {
  std::string id;
  Seconds heartbeat{2};
  Backoff backoff;
  bool registering = true;
  bool lives = false;      // sends heartbeats and asks for work
  std::int64_t heard = 0;  // the round in which it last was
};

struct FakeAgents::Call {
  int agent = 0;
  What what = What::kRegister;
  Clock::time_point started;
  grpc::ClientContext context;
  grpc::Status status;
  v1::RegisterResponse registered;
  v1::HeartbeatResponse beaten;
  v1::LeaseTasksResponse leased;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::RegisterResponse>> r;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::HeartbeatResponse>> h;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::LeaseTasksResponse>> l;
};

std::string FakeAgentName(int i) { return fmt::format("fake-{:05}", i); }

FakeAgents::FakeAgents(const std::string& address,
                       const FakeAgentsOptions& options)
    : agents_(static_cast<std::size_t>(options.agents)),
      tokens_(options.tokens) {
  const auto credentials =
      options.ca.empty() ? grpc::InsecureChannelCredentials()
                         : grpc::SslCredentials({.pem_root_certs = options.ca});
  for (int i = 0; i < options.connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    stubs_.push_back(v1::AgentService::NewStub(
        grpc::CreateCustomChannel(address, credentials, arguments)));
  }
  for (int i = 0; i < options.agents; ++i) {
    Agent& agent = agents_[static_cast<std::size_t>(i)];
    agent.id = FakeAgentName(i);
    Later(i, What::kRegister, options.start * i / options.agents);
  }
}

FakeAgents::~FakeAgents() {
  while (open_ > 0 && Finish(Clock::now() + std::chrono::seconds(30))) {
  }
}

void FakeAgents::Run(Seconds time, const std::function<bool()>& enough) {
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
  while (Clock::now() < end && !(enough && enough())) {
    while (!due_.empty() && due_.top().when <= Clock::now()) {
      const Due due = due_.top();
      due_.pop();
      Start(due);
    }
    Finish(due_.empty() ? end : std::min(end, due_.top().when));
  }
}

FakeAgents::Counts FakeAgents::Take() {
  for (Outcome* outcome : {&counts_.heartbeats, &counts_.polls}) {
    std::ranges::sort(outcome->latencies_ms);
  }
  ++round_;
  heard_ = 0;
  return std::exchange(counts_, {});
}

void FakeAgents::Later(int agent, What what, Seconds wait) {
  due_.push({Clock::now() + std::chrono::duration_cast<Clock::duration>(wait),
             agent, what});
}

void FakeAgents::Start(const Due& due) {
  const Agent& agent = agents_[static_cast<std::size_t>(due.agent)];
  v1::AgentService::Stub& stub =
      *stubs_[static_cast<std::size_t>(due.agent) % stubs_.size()];
  auto* const call = new Call{};  // until its answer
  call->agent = due.agent;
  call->what = due.what;
  call->started = Clock::now();
  call->context.set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::microseconds>(kPatience));
  if (!tokens_.empty()) {
    call->context.AddMetadata(
        "authorization",
        "Bearer " + tokens_.at(static_cast<std::size_t>(due.agent)));
  }
  ++open_;
  switch (due.what) {
    case What::kRegister: {
      call->r = stub.AsyncRegister(
          &call->context, Registration(agent.id, due.agent % 3), &queue_);
      call->r->Finish(&call->registered, &call->status, call);
      break;
    }
    case What::kBeat: {
      v1::HeartbeatRequest request;
      request.set_agent_id(agent.id);
      v1::Device& device = *request.add_devices();
      device.set_id(agent.id);
      device.set_state("idle");
      call->h = stub.AsyncHeartbeat(&call->context, request, &queue_);
      call->h->Finish(&call->beaten, &call->status, call);
      break;
    }
    case What::kPoll: {
      v1::LeaseTasksRequest request;
      request.set_agent_id(agent.id);
      request.set_device_id(agent.id);
      request.set_max_tasks(2);
      request.set_takes_cross_checks(true);
      call->l = stub.AsyncLeaseTasks(&call->context, request, &queue_);
      call->l->Finish(&call->leased, &call->status, call);
      break;
    }
  }
}

bool FakeAgents::Finish(Clock::time_point end) {
  void* const tag = NextTag(queue_, end);
  if (tag == nullptr) return false;
  const std::unique_ptr<Call> call(static_cast<Call*>(tag));
  --open_;
  Answered(*call);
  return true;
}

void FakeAgents::Answered(const Call& call) {
  Agent& agent = agents_[static_cast<std::size_t>(call.agent)];
  const bool ok = call.status.ok();
  if (call.what != What::kRegister) {
    Outcome& outcome =
        call.what == What::kBeat ? counts_.heartbeats : counts_.polls;
    ++outcome.calls;
    outcome.latencies_ms.push_back(
        std::chrono::duration<double, std::milli>(Clock::now() - call.started)
            .count());
    if (!ok && outcome.failed++ == 0) {
      outcome.first_error = call.status.error_message();
    }
  }
  if (ok && agent.heard != round_) {
    agent.heard = round_;
    ++heard_;
  }
  if (ok) agent.backoff.Reset();
  const auto after_failure = [&] {
    return FromMs(agent.backoff.Next().count()) +
           Seconds(kReconnectSpread * Chance());
  };
  const bool forgotten =
      call.status.error_code() == grpc::StatusCode::NOT_FOUND;
  if (forgotten && !agent.registering) {
    agent.registering = true;
    Later(call.agent, What::kRegister, Seconds(0));
  }
  switch (call.what) {
    case What::kRegister:
      if (!ok) return Later(call.agent, What::kRegister, after_failure());
      ++counts_.registered;
      agent.registering = false;
      agent.heartbeat = FromMs(call.registered.heartbeat_ms());
      if (std::exchange(agent.lives, true)) return;
      Later(call.agent, What::kBeat, agent.heartbeat);
      return Later(call.agent, What::kPoll, Seconds(0));
    case What::kBeat:
      return Later(call.agent, What::kBeat,
                   agent.heartbeat *
                       (ok ? 0.75 + 0.25 * Chance() : 0.25 + 0.75 * Chance()));
    case What::kPoll:
      return Later(call.agent, What::kPoll,
                   ok ? FromMs(call.leased.poll_after_ms()) : after_failure());
  }
}

}  // namespace ucudnn::test
