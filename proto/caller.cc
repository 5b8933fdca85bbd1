#include "proto/caller.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/status.h"

namespace ucudnn {
namespace {

// Plans of large jobs, and tasks with known measurements, far exceed gRPC's
// default of 4 MiB.
constexpr int kMaxMessage = 256 << 20;

// What gRPC answers when all its threads are busy.
constexpr char kNoThread[] = "Server Threadpool Exhausted";

grpc::ChannelArguments ChannelArguments(Milliseconds reconnect_spread) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessage);
  arguments.SetMaxSendMessageSize(kMaxMessage);
  // Retry (proto/retry.h) does the waiting; the channel reconnects
  // quickly.
  const int later = static_cast<int>(PartOf(reconnect_spread).count());
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50 + later);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000 + later);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Detects a dead host during calls that take minutes.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A service inside the cluster is not behind a web proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

Attempt Stopped() {
  return {Fail(Code::kCancelled, "stopped while waiting for the coordinator"),
          false};
}

// The outcome of an attempt that was not stopped.
Attempt Read(const grpc::Status& status, const grpc::ClientContext& context) {
  Attempt attempt{FromGrpc(status), IsFromService(status)};
  if (!attempt.answered && !attempt.status &&
      attempt.status.error().code == Code::kCancelled) {
    // gRPC cancels ongoing calls when a server shuts down.
    attempt.status =
        Fail(Code::kUnavailable, "it shut down before it answered");
  }
  // Another coordinator may have time, and this one later. Other exhaustions,
  // as of a quota or a message's size, stay.
  if (!attempt.status &&
      attempt.status.error().code == Code::kResourceExhausted &&
      (context.GetServerTrailingMetadata().contains(kPushbackHeader) ||
       status.error_message() == kNoThread)) {
    attempt.answered = false;
    attempt.status.error().code = Code::kUnavailable;
  }
  return attempt;
}

}  // namespace

Caller::Caller(std::vector<std::string> coordinators, Access access,
               std::stop_token stop, Waiting waiting,
               Milliseconds reconnect_spread)
    : coordinators_(std::move(coordinators)),
      name_(fmt::format("{}", fmt::join(coordinators_, ","))),
      access_(std::move(access)),
      stop_(std::move(stop)),
      waiting_(std::move(waiting)),
      reconnect_spread_(reconnect_spread) {
  UCUDNN_CHECK(!coordinators_.empty());
}

std::shared_ptr<grpc::Channel> Caller::OpenChannel(
    std::size_t coordinator) const {
  return grpc::CreateCustomChannel(coordinators_[coordinator],
                                   access_.credentials(),
                                   ChannelArguments(reconnect_spread_));
}

Status Caller::Reach(
    const std::vector<std::shared_ptr<grpc::Channel>>& channels,
    Milliseconds patience) {
  constexpr Milliseconds kLook{20};
  const auto end = std::chrono::system_clock::now() + patience;
  while (true) {
    grpc_connectivity_state state{};
    for (std::size_t i = 0; i < channels.size(); ++i) {
      state = channels[i]->GetState(/*try_to_connect=*/true);
      if (state == GRPC_CHANNEL_READY) {
        current_ = i;
        return {};
      }
    }
    if (stop_.stop_requested()) return Stopped().status;
    const auto now = std::chrono::system_clock::now();
    if (now >= end) {
      return Fail(Code::kUnavailable, "no coordinator answers at {}{}: {}",
                  name_, access_.How(), WhyUnreachable());
    }
    channels.back()->WaitForStateChange(state, std::min(end, now + kLook));
  }
}

std::string Caller::WhyUnreachable() const {
  std::string text;
  for (const std::string& coordinator : coordinators_) {
    const std::string why = access_.WhyUnreachable(coordinator);
    if (coordinators_.size() == 1) return why;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", coordinator, why);
  }
  return text;
}

void Caller::Reconnect(grpc::Channel& channel,
                       std::chrono::system_clock::time_point deadline) const {
  // gRPC connects again in the background, but only calls and waiting move a
  // handshake on, and calls fail at once as long as it has not succeeded.
  using Clock = std::chrono::system_clock;
  constexpr Clock::duration kHandshake = Milliseconds(1500);
  if (!access_.tls() ||
      channel.GetState(false) != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    return;
  }
  const Clock::time_point now = Clock::now();
  channel.WaitForStateChange(GRPC_CHANNEL_TRANSIENT_FAILURE,
                             now + std::min(kHandshake, (deadline - now) / 2));
}

Status Caller::Run(
    const RetryPolicy& policy,
    const std::function<grpc::Status(std::size_t, grpc::ClientContext*)>&
        call) {
  std::size_t at = current_;
  Retried result = Retry(
      policy, waiting_, coordinators_.size(), &at,
      [&](std::size_t coordinator, Milliseconds timeout) -> Attempt {
        if (stop_.stop_requested()) return Stopped();
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + timeout);
        access_.AddTo(&context);
        const std::stop_callback cancel(stop_, [&] { context.TryCancel(); });
        const grpc::Status status = call(coordinator, &context);
        if (stop_.stop_requested() && !status.ok()) return Stopped();
        return Read(status, context);
      });
  current_ = at;
  if (result.status) return {};
  Error error = std::move(result.status).error();
  const bool transport =
      !result.answered && (error.code == Code::kUnavailable ||
                           error.code == Code::kDeadlineExceeded);
  // So begin gRPC's texts where there is no connection.
  if (transport && (error.message.starts_with("failed to connect to") ||
                    error.message.starts_with("DNS resolution failed"))) {
    error.message = WhyUnreachable();
  }
  if (transport) {
    error.message = fmt::format(
        "coordinator{} {} cannot be reached{}: {} ({} {})",
        coordinators_.size() == 1 ? "" : "s", name_, access_.How(),
        error.message, result.attempts, result.attempts == 1 ? "try" : "tries");
  }
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace ucudnn
