#include "coordinator/rest/probes.h"

#include <httplib.h>

#include "coordinator/coordinator.h"
#include "coordinator/metrics.h"
#include "coordinator/rest/http_listener.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

void AddProbes(Coordinator& coordinator, Metrics& metrics, HttpListener* http) {
  using Http = httplib::Request;
  http->Route("GET", "/livez", [](const Http&, httplib::Response* response) {
    response->set_content("ok\n", "text/plain");
  });
  http->Route("GET", "/readyz",
              [&coordinator](const Http&, httplib::Response* response) {
                if (const Status ready = coordinator.Ready(); !ready) {
                  return ReplyError(ready.error(), response);
                }
                response->set_content("ok\n", "text/plain");
              });
  http->Route("GET", "/metrics", [&](const Http&, httplib::Response* response) {
    const auto status = coordinator.GetStatus({});
    if (!status) return ReplyError(status.error(), response);
    response->set_content(metrics.Text(*status),
                          "application/openmetrics-text; version=1.0.0; "
                          "charset=utf-8");
  });
}

}  // namespace ucudnn
