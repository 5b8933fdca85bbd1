#ifndef UCUDNN_TESTS_BENCH_SERVICE_LOAD_H_
#define UCUDNN_TESTS_BENCH_SERVICE_LOAD_H_

// Loads a coordinator with calls over gRPC or HTTP and tells how it did. Calls
// are sent and answers dropped as bytes, so that the load costs little itself.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ucudnn::test {

struct Outcome {
  std::int64_t calls = 0;
  std::int64_t failed = 0;
  std::string first_error;
  std::chrono::duration<double> took{0};
  std::vector<double> latencies_ms;  // sorted

  double Rate() const { return static_cast<double>(calls) / took.count(); }
  // The latency that `part` of the calls did not exceed.
  double Quantile(double part) const;
};

// The next answer's tag; null if there is none until `end`.
void* NextTag(grpc::CompletionQueue& queue,
              std::chrono::steady_clock::time_point end);

// The next call's serialised request; empty once there is none left.
using NextRequest = std::function<std::string()>;

// Calls of one thread over several connections. Not thread-safe.
class RpcLoad {
 public:
  RpcLoad(const std::string& address, int connections);

  // Keeps `outstanding` calls of `method` (such as
  // "/ucudnn.v1.CoordinatorService/GetPlan") open for so long, or until there
  // are no more requests.
  Outcome Closed(const std::string& method, const NextRequest& next,
                 int outstanding, std::chrono::duration<double> time);
  // Starts `rate` calls a second, whatever becomes of them. Latencies count
  // from when a call was due.
  Outcome Open(const std::string& method, const NextRequest& next, double rate,
               std::chrono::duration<double> time);

 private:
  using Clock = std::chrono::steady_clock;
  struct Started;

  // False if there was no request left.
  bool Start(const std::string& method, const NextRequest& next,
             Clock::time_point due);
  // Waits for an answer until `end`; false if none came.
  bool Finish(Clock::time_point end, Outcome* outcome);

  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::size_t calls_ = 0;
  grpc::CompletionQueue queue_;
};

// Keeps one GET open on each of `connections` for so long.
Outcome HttpLoad(int port, const std::string& path, int connections,
                 std::chrono::duration<double> time);

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_BENCH_SERVICE_LOAD_H_
