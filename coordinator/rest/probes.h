#ifndef UCUDNN_COORDINATOR_REST_PROBES_H_
#define UCUDNN_COORDINATOR_REST_PROBES_H_

// What supervisors and monitoring ask over HTTP: GET /livez, /readyz, /metrics.

namespace ucudnn {

class Coordinator;
class HttpListener;
class Metrics;

void AddProbes(Coordinator& coordinator, Metrics& metrics, HttpListener* http);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_PROBES_H_
