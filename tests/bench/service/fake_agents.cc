#include "tests/bench/service/fake_agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/service/backoff.h"
#include "tests/bench/service/served.h"

namespace ucudnn::test {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kReconnectSpread = 5;  // seconds, as of agents

Seconds FromMs(std::int64_t ms) {
  return std::chrono::duration<double, std::milli>(ms);
}

template <class Message>
Message Read(const std::string& bytes) {
  Message message;
  if (!message.ParseFromString(bytes)) Die("an answer cannot be read");
  return message;
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

std::string FakeAgentName(int i) { return fmt::format("fake-{:05}", i); }

FakeAgents::FakeAgents(int port, const FakeAgentsOptions& options)
    : connections_(static_cast<std::size_t>(options.connections)),
      calls_(port, connections_, options.tls),
      agents_(static_cast<std::size_t>(options.agents)) {
  for (int i = 0; i < options.agents; ++i) {
    agents_[static_cast<std::size_t>(i)].id = FakeAgentName(i);
    Later(i, What::kRegister, options.start * i / options.agents);
  }
}

FakeAgents::~FakeAgents() = default;

void FakeAgents::Run(Seconds time, const std::function<bool()>& enough) {
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
  while (Clock::now() < end && !(enough && enough())) {
    while (!due_.empty() && due_.top().when <= Clock::now()) {
      const Due due = due_.top();
      due_.pop();
      Start(due);
    }
    calls_.Serve(due_.empty() ? end : std::min(end, due_.top().when));
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
  std::string_view method;
  std::string request;
  switch (due.what) {
    case What::kRegister:
      method = "/ucudnn.v1.AgentService/Register";
      request = Registration(agent.id, due.agent % 3).SerializeAsString();
      break;
    case What::kBeat: {
      method = "/ucudnn.v1.AgentService/Heartbeat";
      v1::HeartbeatRequest beat;
      beat.set_agent_id(agent.id);
      v1::Device& device = *beat.add_devices();
      device.set_id(agent.id);
      device.set_state("idle");
      request = beat.SerializeAsString();
      break;
    }
    case What::kPoll: {
      method = "/ucudnn.v1.AgentService/LeaseTasks";
      v1::LeaseTasksRequest poll;
      poll.set_agent_id(agent.id);
      poll.set_device_id(agent.id);
      poll.set_max_tasks(2);
      poll.set_takes_cross_checks(true);
      request = poll.SerializeAsString();
      break;
    }
  }
  calls_.Start(static_cast<std::size_t>(due.agent) % connections_, method,
               request,
               [this, due, started = Clock::now()](const auto& answer) {
                 Answered(due, started, answer);
               });
}

void FakeAgents::Answered(const Due& call, Clock::time_point started,
                          const UnaryCalls::Answer& answer) {
  Agent& agent = agents_[static_cast<std::size_t>(call.agent)];
  const bool ok = answer.status == 0;
  if (call.what != What::kRegister) {
    Outcome& outcome =
        call.what == What::kBeat ? counts_.heartbeats : counts_.polls;
    ++outcome.calls;
    outcome.latencies_ms.push_back(
        std::chrono::duration<double, std::milli>(Clock::now() - started)
            .count());
    if (!ok && outcome.failed++ == 0) {
      outcome.first_error = answer.message;
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
  const bool forgotten = answer.status == 5;
  if (forgotten && !agent.registering) {
    agent.registering = true;
    Later(call.agent, What::kRegister, Seconds(0));
  }
  switch (call.what) {
    case What::kRegister:
      if (!ok) return Later(call.agent, What::kRegister, after_failure());
      ++counts_.registered;
      agent.registering = false;
      agent.heartbeat =
          FromMs(Read<v1::RegisterResponse>(answer.bytes).heartbeat_ms());
      if (std::exchange(agent.lives, true)) return;
      Later(call.agent, What::kBeat, agent.heartbeat);
      return Later(call.agent, What::kPoll, Seconds(0));
    case What::kBeat:
      return Later(call.agent, What::kBeat,
                   agent.heartbeat *
                       (ok ? 0.75 + 0.25 * Chance() : 0.25 + 0.75 * Chance()));
    case What::kPoll:
      return Later(
          call.agent, What::kPoll,
          ok ? FromMs(
                   Read<v1::LeaseTasksResponse>(answer.bytes).poll_after_ms())
             : after_failure());
  }
}

}  // namespace ucudnn::test
