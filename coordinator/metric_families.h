#ifndef UCUDNN_COORDINATOR_METRIC_FAMILIES_H_
#define UCUDNN_COORDINATOR_METRIC_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <string>
#include <utility>

namespace ucudnn {

// A counter or gauge without labels.
inline prometheus::MetricFamily Single(std::string name, std::string help,
                                       prometheus::MetricType type,
                                       double value) {
  prometheus::MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  if (type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return family;
}

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_METRIC_FAMILIES_H_
