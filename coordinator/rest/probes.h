#ifndef UCUDNN_COORDINATOR_REST_PROBES_H_
#define UCUDNN_COORDINATOR_REST_PROBES_H_

// What supervisors and monitoring ask over HTTP: GET /livez, /readyz, /metrics.

namespace ucudnn {

class Dispatcher;
class Health;
class HttpServer;

// The references must outlive `http`.
void AddProbes(Dispatcher& dispatcher, const Health& health, HttpServer* http);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_PROBES_H_
