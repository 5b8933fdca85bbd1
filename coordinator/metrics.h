#ifndef UCUDNN_COORDINATOR_METRICS_H_
#define UCUDNN_COORDINATOR_METRICS_H_

// What the coordinator counts, in OpenMetrics text. Thread-safe.

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>
#include <string>

#include "base/result.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

class Metrics {
 public:
  Metrics();

  // One request was answered, over gRPC or REST.
  void CountRequest(const std::string& method, const Status& outcome,
                    std::chrono::nanoseconds took);

  // Everything counted, and the gauges of `status`, as OpenMetrics 1.0 text.
  std::string Text(const v1::StatusResponse& status) const;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& durations_;
};

// Serialises what prometheus-cpp collects, whose own serialiser writes the
// older text format only.
std::string ToOpenMetrics(
    const std::vector<prometheus::MetricFamily>& families);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_METRICS_H_
