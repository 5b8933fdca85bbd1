#include "coordinator/metrics.h"

#include <prometheus/metric_family.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "coordinator/activity.h"
#include "coordinator/metric_families.h"
#include "coordinator/process_metrics.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

const prometheus::Histogram::BucketBoundaries kSeconds = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,    0.25,  0.5,    1,     2.5,  5,     10};

std::string Escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

// {method="GetPlan",le="0.5"}; empty without labels.
std::string Labels(const ClientMetric& metric,
                   const std::string& extra = std::string()) {
  std::string text;
  for (const auto& label : metric.label) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", label.name,
                        Escaped(label.value));
  }
  if (!extra.empty()) text += (text.empty() ? "" : ",") + extra;
  return text.empty() ? text : "{" + text + "}";
}

std::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Histogram:
      return "histogram";
    default:
      return "unknown";
  }
}

void Append(const std::string& name, const ClientMetric& metric,
            MetricType type, std::string* text) {
  const auto out = std::back_inserter(*text);
  switch (type) {
    case MetricType::Counter:
      fmt::format_to(out, "{}_total{} {}\n", name, Labels(metric),
                     metric.counter.value);
      return;
    case MetricType::Histogram:
      for (const auto& bucket : metric.histogram.bucket) {
        const std::string bound = std::isinf(bucket.upper_bound)
                                      ? "+Inf"
                                      : fmt::format("{}", bucket.upper_bound);
        fmt::format_to(out, "{}_bucket{} {}\n", name,
                       Labels(metric, "le=\"" + bound + "\""),
                       bucket.cumulative_count);
      }
      fmt::format_to(out, "{}_count{} {}\n", name, Labels(metric),
                     metric.histogram.sample_count);
      fmt::format_to(out, "{}_sum{} {}\n", name, Labels(metric),
                     metric.histogram.sample_sum);
      return;
    default:
      fmt::format_to(out, "{}{} {}\n", name, Labels(metric),
                     metric.gauge.value);
  }
}

MetricFamily Gauge(
    std::string name, std::string help, const std::string& label,
    const std::vector<std::pair<std::string, std::int64_t>>& values) {
  MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = MetricType::Gauge;
  for (const auto& [value_of_label, value] : values) {
    ClientMetric metric;
    metric.label.push_back({label, value_of_label});
    metric.gauge.value = static_cast<double>(value);
    family.metric.push_back(std::move(metric));
  }
  return family;
}

MetricFamily BuildInfo(const v1::StatusResponse& status) {
  MetricFamily family =
      Single("ucudnn_build_info", "1, with what serves as labels",
             MetricType::Gauge, 1);
  family.metric[0].label = {
      {"version", status.version()},
      {"database", status.database()},
      {"schema", fmt::format("{}", status.schema_version())}};
  return family;
}

MetricFamily Ratios(const JobGauges& jobs) {
  MetricFamily family =
      Gauge("ucudnn_step_over_predicted_ratio",
            "Median step over predicted convolutions, of running jobs' ranks",
            "of", {{"median", 0}, {"largest", 0}});
  family.metric[0].gauge.value = jobs.median_over_predicted;
  family.metric[1].gauge.value = jobs.largest_over_predicted;
  return family;
}

prometheus::Family<prometheus::Histogram>& Transactions(
    prometheus::Registry& registry) {
  return prometheus::BuildHistogram()
      .Name("ucudnn_database_transaction_seconds")
      .Help("Time of database transactions, with repeats and waiting")
      .Register(registry);
}

}  // namespace

std::string ToOpenMetrics(const std::vector<MetricFamily>& families) {
  std::string text;
  for (const MetricFamily& family : families) {
    // A counter family's name has no _total; its samples have.
    std::string name = family.name;
    if (family.type == MetricType::Counter && name.ends_with("_total")) {
      name.resize(name.size() - 6);
    }
    fmt::format_to(std::back_inserter(text), "# TYPE {} {}\n# HELP {} {}\n",
                   name, TypeName(family.type), name, Escaped(family.help));
    for (const ClientMetric& metric : family.metric) {
      Append(name, metric, family.type, &text);
    }
  }
  return text + "# EOF\n";
}

Metrics::Metrics()
    : requests_(prometheus::BuildCounter()
                    .Name("ucudnn_requests_total")
                    .Help("Requests answered, by method and outcome")
                    .Register(registry_)),
      durations_(prometheus::BuildHistogram()
                     .Name("ucudnn_request_duration_seconds")
                     .Help("Time to answer a request, by method")
                     .Register(registry_)),
      reads_(Transactions(registry_).Add({{"access", "read"}}, kSeconds)),
      writes_(Transactions(registry_).Add({{"access", "write"}}, kSeconds)),
      unread_(prometheus::BuildGauge()
                  .Name("ucudnn_rpc_answers_unread")
                  .Help("Answers over gRPC that clients have not read yet")
                  .Register(registry_)
                  .Add({})),
      unread_ended_(prometheus::BuildCounter()
                        .Name("ucudnn_rpc_answers_dropped_total")
                        .Help("Calls over gRPC that ended since their answers "
                              "were not read")
                        .Register(registry_)
                        .Add({})) {}

void Metrics::SetUnread(std::size_t unread, std::size_t ended) {
  unread_.Set(static_cast<double>(unread));
  unread_ended_.Increment(static_cast<double>(ended));
}

void Metrics::CountRequest(const std::string& method, const Status& outcome,
                           std::chrono::nanoseconds took) {
  const std::string code(outcome ? "OK" : CodeName(outcome.error().code));
  requests_.Add({{"method", method}, {"code", code}}).Increment();
  durations_.Add({{"method", method}}, kSeconds)
      .Observe(std::chrono::duration<double>(took).count());
}

void Metrics::CountTransaction(bool write, std::chrono::nanoseconds took) {
  (write ? writes_ : reads_)
      .Observe(std::chrono::duration<double>(took).count());
}

std::string Metrics::Text(
    const v1::StatusResponse& status, std::chrono::nanoseconds age,
    const Activity& activity,
    const std::map<std::string, std::int64_t>& until) const {
  std::vector<MetricFamily> families = registry_.Collect();
  if (!until.empty()) {
    families.push_back(
        Gauge("ucudnn_certificate_expires_timestamp_seconds",
              "When the coordinator's certificate expires, and the first of "
              "those that callers showed, by role",
              "role", {until.begin(), until.end()}));
  }
  const auto gauge = [&](const char* name, const char* help, auto value) {
    families.push_back(
        Single(name, help, MetricType::Gauge, static_cast<double>(value)));
  };
  const auto counter = [&](const char* name, const char* help,
                           std::int64_t value) {
    families.push_back(
        Single(name, help, MetricType::Counter, static_cast<double>(value)));
  };
  gauge("ucudnn_status_age_seconds",
        "How long ago the database told the numbers of agents, devices, "
        "networks, tasks and jobs",
        std::chrono::duration<double>(age).count());
  gauge("ucudnn_agents_online", "Agents that are online",
        status.agents_online());
  gauge("ucudnn_devices_online", "Devices of agents that are online",
        status.devices_online());
  gauge("ucudnn_networks", "Registered networks", status.networks());
  families.push_back(Gauge("ucudnn_tasks", "Benchmark tasks, by state", "state",
                           {{"pending", status.tasks_pending()},
                            {"running", status.tasks_running()},
                            {"done", status.tasks_done()},
                            {"failed", status.tasks_failed()},
                            {"cancelled", status.tasks_cancelled()}}));
  families.push_back(Gauge("ucudnn_jobs", "Training jobs, by state", "state",
                           {{"running", status.jobs_running()},
                            {"finished", status.jobs_finished()},
                            {"lost", status.jobs_lost()}}));
  const JobGauges jobs = activity.jobs();
  gauge("ucudnn_jobs_drifting", "Running jobs whose steps drift",
        jobs.drifting);
  gauge("ucudnn_ranks_silent", "Silent ranks of running jobs",
        jobs.silent_ranks);
  gauge("ucudnn_revisions_awaiting", "Proposed plans that await acceptance",
        jobs.proposals);
  gauge("ucudnn_jobs_with_idle_devices",
        "Running jobs that would gain by idle devices on their nodes, if "
        "started again with them",
        jobs.with_idle_devices);
  families.push_back(Ratios(jobs));
  counter("ucudnn_agents_lost_total", "Agents found silent by this coordinator",
          activity.agents_lost);
  counter("ucudnn_jobs_lost_total", "Jobs found silent by this coordinator",
          activity.jobs_lost);
  counter("ucudnn_steps_reported_total", "Steps reported to this coordinator",
          activity.steps_reported);
  counter("ucudnn_revisions_proposed_total",
          "Plans proposed by this coordinator", activity.revisions_proposed);
  families.push_back(BuildInfo(status));
  for (MetricFamily& family : ProcessMetrics()) {
    families.push_back(std::move(family));
  }
  return ToOpenMetrics(families);
}

}  // namespace ucudnn
