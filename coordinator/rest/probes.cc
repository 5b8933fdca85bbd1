#include "coordinator/rest/probes.h"

#include <httplib.h>

#include "coordinator/dispatcher.h"
#include "coordinator/health.h"
#include "coordinator/rest/http_listener.h"
#include "coordinator/rest/problem.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

void AddProbes(Dispatcher& dispatcher, const Health& health,
               HttpListener* http) {
  using Http = httplib::Request;
  http->Route("GET", "/livez", [](const Http&, httplib::Response* response) {
    response->set_content("ok\n", "text/plain");
  });
  http->Route("GET", "/readyz",
              [&health](const Http&, httplib::Response* response) {
                if (const Status ready = health.Ready(); !ready) {
                  // 503 whatever the reason.
                  return ReplyError(ready.error(), response, 503);
                }
                response->set_content("ok\n", "text/plain");
              });
  http->Route(
      "GET", "/metrics",
      [&dispatcher](const Http& request, httplib::Response* response) {
        const auto admitted = dispatcher.guard().Admit(
            {.host = request.remote_addr,
             .certificate = HttpListener::ClientCertificate(),
             .authorization = request.get_header_value("Authorization")},
            kReadMetrics, {});
        if (!admitted) return ReplyError(admitted.error(), response);
        const auto status = dispatcher.coordinator().GetStatus({});
        if (!status) return ReplyError(status.error(), response);
        response->set_content(dispatcher.metrics().Text(
                                  *status, dispatcher.coordinator().activity()),
                              "application/openmetrics-text; version=1.0.0; "
                              "charset=utf-8");
      });
}

}  // namespace ucudnn
