#ifndef UCUDNN_COORDINATOR_METRICS_H_
#define UCUDNN_COORDINATOR_METRICS_H_

// The coordinator's metrics, as OpenMetrics text. Thread-safe.

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

class Activity;

class Metrics {
 public:
  Metrics();

  // Counts an answered request of gRPC or REST.
  void CountRequest(const std::string& method, const Status& outcome,
                    std::chrono::nanoseconds took);

  // Counts a transaction of the database.
  void CountTransaction(bool write, std::chrono::nanoseconds took);

  // How many answers over gRPC clients do not read now; adds the calls that
  // `ended` because of that.
  void SetUnread(std::size_t unread, std::size_t ended);

  // All counters, what the coordinator did, the gauges of `status`, which was
  // read `age` ago, when certificates expire (Guard::Expiries), and those of
  // this process, as OpenMetrics 1.0 text.
  std::string Text(const v1::StatusResponse& status,
                   std::chrono::nanoseconds age, const Activity& activity,
                   const std::map<std::string, std::int64_t>& until = {}) const;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& durations_;
  prometheus::Histogram& reads_;
  prometheus::Histogram& writes_;
  prometheus::Gauge& unread_;
  prometheus::Counter& unread_ended_;
};

// OpenMetrics 1.0 text; prometheus-cpp itself writes only the older format.
std::string ToOpenMetrics(
    const std::vector<prometheus::MetricFamily>& families);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_METRICS_H_
