#include "coordinator/security/certificate.h"

#include <openssl/x509v3.h>

#include <ctime>
#include <vector>

namespace ucudnn {
namespace {

using NamesPtr = OpensslPtr<GENERAL_NAMES, GENERAL_NAMES_free>;

std::vector<std::string> UrisOf(const X509& certificate) {
  std::vector<std::string> uris;
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  const int count = names == nullptr ? 0 : sk_GENERAL_NAME_num(names.get());
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<std::size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

}  // namespace

Result<X509Ptr> ParseCertificate(const std::string& pem) {
  X509Ptr certificate(
      PEM_read_bio_X509(BioOf(pem).get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) {
    return Fail(Code::kInvalidArgument, "no certificate (PEM): {}",
                OpensslReason());
  }
  return certificate;
}

std::string SerialOf(const ASN1_INTEGER& serial) {
  const BignumPtr number(ASN1_INTEGER_to_BN(&serial, nullptr));
  const OpensslPtr<char, [](char* text) { OPENSSL_free(text); }> text(
      BN_bn2hex(number.get()));
  return text == nullptr ? "" : text.get();
}

Result<CertificateFacts> FactsOf(const X509& certificate) {
  const std::vector<std::string> uris = UrisOf(certificate);
  if (uris.size() != 1) {
    return Fail(Code::kUnauthenticated,
                "the certificate has {} URIs as alternative names; exactly "
                "one, spiffe://CLUSTER/ROLE/NAME, is accepted",
                uris.size());
  }
  CertificateFacts facts;
  auto principal = ParsePrincipal(uris.front());
  if (!principal) {
    principal.error().code = Code::kUnauthenticated;
    return Within("the certificate", std::move(principal).error());
  }
  facts.principal = *std::move(principal);
  facts.serial = SerialOf(*X509_get0_serialNumber(&certificate));
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &end) != 1) {
    return Fail(Code::kUnauthenticated,
                "the certificate's end cannot be read: {}", OpensslReason());
  }
  facts.expires_ms = std::int64_t{timegm(&end)} * 1000;
  return facts;
}

Result<std::set<std::string>> ReadRevoked(const std::string& crl,
                                          const std::string& ca) {
  const CrlPtr list(
      PEM_read_bio_X509_CRL(BioOf(crl).get(), nullptr, nullptr, nullptr));
  if (list == nullptr) {
    return Fail(Code::kInvalidArgument, "no revocation list (PEM): {}",
                OpensslReason());
  }
  bool ours = false;
  const BioPtr authorities = BioOf(ca);
  while (const X509Ptr authority{
      PEM_read_bio_X509(authorities.get(), nullptr, nullptr, nullptr)}) {
    ours = ours ||
           X509_CRL_verify(list.get(), X509_get0_pubkey(authority.get())) == 1;
  }
  ERR_clear_error();
  if (!ours) {
    return Fail(Code::kInvalidArgument,
                "the revocation list is not signed by the authority");
  }
  std::set<std::string> revoked;
  STACK_OF(X509_REVOKED)* entries = X509_CRL_get_REVOKED(list.get());
  for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
    revoked.insert(SerialOf(
        *X509_REVOKED_get0_serialNumber(sk_X509_REVOKED_value(entries, i))));
  }
  return revoked;
}

}  // namespace ucudnn
