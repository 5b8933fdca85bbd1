#include "tests/bench/service/load.h"

#include <httplib.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace ucudnn::test {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

void End(std::chrono::steady_clock::time_point start, Outcome* outcome) {
  outcome->took = std::chrono::steady_clock::now() - start;
  std::ranges::sort(outcome->latencies_ms);
}

}  // namespace

void* NextTag(grpc::CompletionQueue& queue,
              std::chrono::steady_clock::time_point end) {
  void* tag = nullptr;
  bool ok = false;
  const auto until = std::chrono::system_clock::now() +
                     std::chrono::duration_cast<std::chrono::microseconds>(
                         end - std::chrono::steady_clock::now());
  return queue.AsyncNext(&tag, &ok, until) == grpc::CompletionQueue::GOT_EVENT
             ? tag
             : nullptr;
}

double Outcome::Quantile(double part) const {
  if (latencies_ms.empty()) return 0;
  const auto last = static_cast<double>(latencies_ms.size() - 1);
  return latencies_ms[static_cast<std::size_t>(part * last)];
}

struct RpcLoad::Started {
  grpc::ClientContext context;
  grpc::Status status;
  grpc::ByteBuffer response;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
  Clock::time_point due;
};

RpcLoad::RpcLoad(const std::string& address, int connections) {
  for (int i = 0; i < connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    stubs_.push_back(
        std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
            address, grpc::InsecureChannelCredentials(), arguments)));
  }
}

bool RpcLoad::Start(const std::string& method, const NextRequest& next,
                    Clock::time_point due) {
  const std::string request = next();
  if (request.empty()) return false;
  auto call = std::make_unique<Started>();
  call->due = due;
  const grpc::Slice slice(request);
  call->reader = stubs_[calls_++ % stubs_.size()]->PrepareUnaryCall(
      &call->context, method, grpc::ByteBuffer(&slice, 1), &queue_);
  call->reader->StartCall();
  Started* tag = call.release();  // until its answer comes
  tag->reader->Finish(&tag->response, &tag->status, tag);
  return true;
}

bool RpcLoad::Finish(Clock::time_point end, Outcome* outcome) {
  void* const tag = NextTag(queue_, end);
  if (tag == nullptr) return false;
  const std::unique_ptr<Started> call(static_cast<Started*>(tag));
  ++outcome->calls;
  outcome->latencies_ms.push_back(
      Milliseconds(Clock::now() - call->due).count());
  if (!call->status.ok() && outcome->failed++ == 0) {
    outcome->first_error = call->status.error_message();
  }
  return true;
}

Outcome RpcLoad::Closed(const std::string& method, const NextRequest& next,
                        int outstanding, std::chrono::duration<double> time) {
  Outcome outcome;
  const auto start = Clock::now();
  int open = 0;
  while (open < outstanding && Start(method, next, Clock::now())) ++open;
  while (open > 0) {
    if (!Finish(start + std::chrono::minutes(10), &outcome)) break;
    const bool more = Clock::now() - start < time;
    if (!more || !Start(method, next, Clock::now())) --open;
  }
  End(start, &outcome);
  return outcome;
}

Outcome RpcLoad::Open(const std::string& method, const NextRequest& next,
                      double rate, std::chrono::duration<double> time) {
  Outcome outcome;
  const auto start = Clock::now();
  std::int64_t started = 0;
  const auto due = [&] {
    return start + std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(
                           static_cast<double>(started) / rate));
  };
  while (due() - start < time) {
    while (due() <= Clock::now() && due() - start < time) {
      Start(method, next, due());
      ++started;
    }
    Finish(due(), &outcome);
  }
  while (outcome.calls < started &&
         Finish(Clock::now() + std::chrono::minutes(1), &outcome)) {
  }
  End(start, &outcome);
  return outcome;
}

Outcome HttpLoad(int port, const std::string& path, int connections,
                 std::chrono::duration<double> time) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::vector<Outcome> outcomes(static_cast<std::size_t>(connections));
  {
    std::vector<std::jthread> threads;
    for (Outcome& outcome : outcomes) {
      threads.emplace_back([&] {
        httplib::Client http("127.0.0.1", port);
        http.set_keep_alive(true);
        http.set_tcp_nodelay(true);
        http.set_read_timeout(std::chrono::seconds(60));
        while (Clock::now() - start < time) {
          const auto began = Clock::now();
          const auto answer = http.Get(path);
          ++outcome.calls;
          outcome.latencies_ms.push_back(
              Milliseconds(Clock::now() - began).count());
          if (answer && answer->status == 200) continue;
          if (outcome.failed++ == 0) {
            outcome.first_error = answer ? answer->body : "no answer";
          }
        }
      });
    }
  }
  Outcome all;
  for (const Outcome& outcome : outcomes) {
    all.calls += outcome.calls;
    all.failed += outcome.failed;
    if (all.first_error.empty()) all.first_error = outcome.first_error;
    all.latencies_ms.insert(all.latencies_ms.end(),
                            outcome.latencies_ms.begin(),
                            outcome.latencies_ms.end());
  }
  End(start, &all);
  return all;
}

}  // namespace ucudnn::test
