#ifndef UCUDNN_TESTS_INTEGRATION_HTTP_H_
#define UCUDNN_TESTS_INTEGRATION_HTTP_H_

#include <httplib.h>

#include <string>

#include "tests/integration/cluster.h"

namespace ucudnn::test {

// A client of the cluster's REST interface with this process's credentials.
inline httplib::Client HttpOf(const Cluster& cluster) {
  const std::string address =
      "127.0.0.1:" + std::to_string(cluster.http_port());
  if (!Cluster::tls()) return httplib::Client("http://" + address);
  const CredentialFiles files = Cluster::Credentials();
  httplib::Client http("https://" + address, files.cert, files.key);
  http.set_ca_cert_path(files.ca.c_str());
  return http;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_INTEGRATION_HTTP_H_
