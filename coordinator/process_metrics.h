#ifndef UCUDNN_COORDINATOR_PROCESS_METRICS_H_
#define UCUDNN_COORDINATOR_PROCESS_METRICS_H_

// The metrics of this process, by the names that Prometheus's own clients use.

#include <prometheus/metric_family.h>

#include <vector>

namespace ucudnn {

// What /proc does not tell is left out.
std::vector<prometheus::MetricFamily> ProcessMetrics();

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PROCESS_METRICS_H_
