#include "tests/bench/service/agent_certificates.h"

#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <utility>

#include "tests/bench/service/served.h"

namespace ucudnn::test {
namespace {

constexpr long kBefore = -300;  // seconds
constexpr long kLifetime = 3600;

void MustBe(bool done) {
  if (!done) Die("OpenSSL: " + OpensslReason());
}

}  // namespace

AgentCertificates::AgentCertificates(const Certificates& authority,
                                     const std::vector<std::string>& agents)
    : context_(SSL_CTX_new(TLS_client_method())), key_(EVP_EC_gen("P-256")) {
  const std::string ca = authority.ca().ca;
  MustBe(SSL_CTX_load_verify_locations(context_.get(), ca.c_str(), nullptr) ==
         1);
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  // Thousands of connections without buffers of their own.
  SSL_CTX_set_mode(context_.get(), SSL_MODE_RELEASE_BUFFERS |
                                       SSL_MODE_ENABLE_PARTIAL_WRITE |
                                       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  MustBe(SSL_CTX_set_alpn_protos(context_.get(), kHttp2, sizeof(kHttp2)) == 0);

  const std::string certificate_pem = FileText(ca);
  const std::string key_pem =
      FileText(std::filesystem::path(ca).replace_extension(".key"));
  const X509Ptr certificate(PEM_read_bio_X509(BioOf(certificate_pem).get(),
                                              nullptr, nullptr, nullptr));
  const KeyPtr key(
      PEM_read_bio_PrivateKey(BioOf(key_pem).get(), nullptr, nullptr, nullptr));
  MustBe(certificate != nullptr && key != nullptr);
  for (const std::string& agent : agents) {
    constexpr long kFirstSerial = 1000;
    certificates_.push_back(Issue(agent,
                                  kFirstSerial + std::ssize(certificates_),
                                  certificate.get(), key.get()));
  }
}

X509Ptr AgentCertificates::Issue(const std::string& agent, long serial,
                                 X509* authority,
                                 EVP_PKEY* authority_key) const {
  X509Ptr issued(X509_new());
  X509_set_version(issued.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(issued.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(issued.get()), kBefore);
  X509_gmtime_adj(X509_getm_notAfter(issued.get()), kLifetime);
  X509_set_pubkey(issued.get(), key_.get());
  X509_set_issuer_name(issued.get(), X509_get_subject_name(authority));
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(issued.get()), "CN", MBSTRING_ASC,
      reinterpret_cast<const unsigned char*>(agent.c_str()), -1, -1, 0);
  X509V3_CTX context;
  X509V3_set_ctx(&context, authority, issued.get(), nullptr, nullptr, 0);
  for (const auto& [kind, value] :
       {std::pair{NID_basic_constraints, std::string("critical,CA:FALSE")},
        std::pair{NID_key_usage, std::string("critical,digitalSignature")},
        std::pair{NID_ext_key_usage, std::string("clientAuth")},
        std::pair{NID_authority_key_identifier, std::string("keyid")},
        std::pair{NID_subject_alt_name,
                  fmt::format("URI:spiffe://test/agent/{}", agent)}}) {
    const OpensslPtr<X509_EXTENSION, X509_EXTENSION_free> extension(
        X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
    MustBe(extension != nullptr &&
           X509_add_ext(issued.get(), extension.get(), -1) == 1);
  }
  MustBe(X509_sign(issued.get(), authority_key, EVP_sha256()) > 0);
  return issued;
}

SslPtr AgentCertificates::Connect(std::size_t agent) const {
  SslPtr connection(SSL_new(context_.get()));
  MustBe(SSL_use_certificate(connection.get(), certificates_.at(agent).get()) ==
             1 &&
         SSL_use_PrivateKey(connection.get(), key_.get()) == 1);
  return connection;
}

}  // namespace ucudnn::test
