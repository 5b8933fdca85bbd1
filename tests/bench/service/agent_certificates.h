#ifndef UCUDNN_TESTS_BENCH_SERVICE_AGENT_CERTIFICATES_H_
#define UCUDNN_TESTS_BENCH_SERVICE_AGENT_CERTIFICATES_H_

// A certificate for each of thousands of agents, as certificates.sh issues
// them but made here, since it takes some 50 ms for each. They share a key.

#include <cstddef>
#include <string>
#include <vector>

#include "coordinator/security/openssl.h"
#include "tests/support/certificates.h"

namespace ucudnn::test {

class AgentCertificates {
 public:
  AgentCertificates(const Certificates& authority,
                    const std::vector<std::string>& agents);

  // A connection that speaks HTTP/2, shows the agent's certificate and asks for
  // one of the authority's.
  SslPtr Connect(std::size_t agent) const;

 private:
  using KeyPtr = OpensslPtr<EVP_PKEY, EVP_PKEY_free>;

  X509Ptr Issue(const std::string& agent, long serial, X509* authority,
                EVP_PKEY* authority_key) const;

  SslContextPtr context_;
  KeyPtr key_;
  std::vector<X509Ptr> certificates_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_BENCH_SERVICE_AGENT_CERTIFICATES_H_
