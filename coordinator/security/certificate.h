#ifndef UCUDNN_COORDINATOR_SECURITY_CERTIFICATE_H_
#define UCUDNN_COORDINATOR_SECURITY_CERTIFICATE_H_

// What a certificate says, and which ones are revoked.

#include <cstdint>
#include <set>
#include <string>

#include "base/result.h"
#include "coordinator/security/openssl.h"
#include "coordinator/security/principal.h"

namespace ucudnn {

struct CertificateFacts {
  Principal principal;
  std::string serial;           // hexadecimal, as OpenSSL prints it
  std::int64_t expires_ms = 0;  // Unix time
};

// The first certificate of a PEM text; it is not verified. kInvalidArgument.
Result<X509Ptr> ParseCertificate(const std::string& pem);
// kUnauthenticated if the certificate has not exactly one URI that names a
// principal.
Result<CertificateFacts> FactsOf(const X509& certificate);
std::string SerialOf(const ASN1_INTEGER& serial);

// The serial numbers that a revocation list (PEM) names. kInvalidArgument if it
// cannot be read or none of the authorities in `ca` (PEM) signed it. When it
// should be replaced by a newer one does not matter: a list that is late would
// otherwise stop the cluster.
Result<std::set<std::string>> ReadRevoked(const std::string& crl,
                                          const std::string& ca);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_SECURITY_CERTIFICATE_H_
