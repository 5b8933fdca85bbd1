#include "coordinator/security/issue.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>

#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "base/files/file.h"
#include "coordinator/security/certificate.h"
#include "coordinator/security/openssl.h"

namespace ucudnn {
namespace {

// Hosts' clocks may differ.
constexpr long kBackdatedSeconds = 300;

struct Authority {
  X509Ptr certificate;
  KeyPtr key;
};

std::string CaPath(const std::string& folder) { return folder + "/ca.crt"; }
std::string CaKeyPath(const std::string& folder) { return folder + "/ca.key"; }
std::string RevokedPath(const std::string& folder) {
  return folder + "/revoked.pem";
}

tl::unexpected<Error> OpensslFailed(std::string_view what) {
  return Fail(Code::kInternal, "{}: {}", what, OpensslReason());
}

KeyPtr NewKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  UCUDNN_CHECK(key != nullptr);
  return key;
}

std::string KeyText(const KeyPtr& key) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  UCUDNN_CHECK(PEM_write_bio_PKCS8PrivateKey(out.get(), key.get(), nullptr,
                                             nullptr, 0, nullptr,
                                             nullptr) == 1);
  return TextOf(out);
}

std::string CertificateText(const X509Ptr& certificate) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  UCUDNN_CHECK(PEM_write_bio_X509(out.get(), certificate.get()) == 1);
  return TextOf(out);
}

// A certificate without extensions and signature.
X509Ptr NewCertificate(const KeyPtr& key, const std::string& common_name,
                       std::chrono::seconds lifetime) {
  X509Ptr certificate(X509_new());
  UCUDNN_CHECK(certificate != nullptr);
  X509* x = certificate.get();
  const BignumPtr serial(BN_new());
  X509_set_version(x, X509_VERSION_3);
  UCUDNN_CHECK(BN_rand(serial.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY));
  BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(x));
  X509_gmtime_adj(X509_getm_notBefore(x), -kBackdatedSeconds);
  X509_gmtime_adj(X509_getm_notAfter(x), lifetime.count());
  // Common names have up to 64 characters; the name that counts is the URI.
  const std::string common = common_name.substr(0, 64);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(x), "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(common.c_str()), -1, -1, 0);
  X509_set_pubkey(x, key.get());
  return certificate;
}

// Adds an extension as openssl.cnf writes it.
Status Extend(X509* certificate, X509* issuer, int nid,
              const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OpensslPtr<X509_EXTENSION, X509_EXTENSION_free> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr ||
      X509_add_ext(certificate, extension.get(), -1) != 1) {
    return OpensslFailed(value);
  }
  return {};
}

Status Sign(X509* certificate, const KeyPtr& key) {
  if (X509_sign(certificate, key.get(), EVP_sha256()) != 0) return {};
  return OpensslFailed("signing a certificate");
}

Status WriteRevoked(const std::string& folder, const Authority& authority,
                    CrlPtr list) {
  using TimePtr = OpensslPtr<ASN1_TIME, ASN1_TIME_free>;
  const TimePtr now(X509_gmtime_adj(nullptr, -kBackdatedSeconds));
  const TimePtr next(X509_gmtime_adj(
      nullptr, std::chrono::seconds(std::chrono::years(100)).count()));
  X509_CRL_set_version(list.get(), X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(list.get(),
                           X509_get_subject_name(authority.certificate.get()));
  X509_CRL_set1_lastUpdate(list.get(), now.get());
  X509_CRL_set1_nextUpdate(list.get(), next.get());
  X509_CRL_sort(list.get());
  if (X509_CRL_sign(list.get(), authority.key.get(), EVP_sha256()) == 0) {
    return OpensslFailed("signing the revocation list");
  }
  const BioPtr out(BIO_new(BIO_s_mem()));
  UCUDNN_CHECK(PEM_write_bio_X509_CRL(out.get(), list.get()) == 1);
  return ReplaceFile(RevokedPath(folder), TextOf(out), 0644);
}

Result<Authority> OpenAuthority(const std::string& folder) {
  Authority authority;
  UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                          ReadFile(CaPath(folder), 1_MiB));
  auto certificate = ParseCertificate(text);
  if (!certificate) {
    return Within(CaPath(folder), std::move(certificate).error());
  }
  authority.certificate = *std::move(certificate);
  UCUDNN_ASSIGN_OR_RETURN(const std::string key, ReadSecret(CaKeyPath(folder)));
  authority.key.reset(
      PEM_read_bio_PrivateKey(BioOf(key).get(), nullptr, nullptr, nullptr));
  if (authority.key == nullptr) {
    return Fail(Code::kInvalidArgument, "{} is no private key (PEM): {}",
                CaKeyPath(folder), OpensslReason());
  }
  return authority;
}

// The cluster that the authority's name tells.
Result<std::string> ClusterOf(const Authority& authority) {
  std::array<char, 256> text{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(authority.certificate.get()),
                            NID_commonName, text.data(),
                            static_cast<int>(text.size()));
  std::string cluster = text.data();
  UCUDNN_RETURN_IF_ERROR(
      CheckPrincipalName("the authority's common name", cluster));
  return cluster;
}

Result<std::string> AlternativeNames(const Principal& principal,
                                     const std::vector<std::string>& hosts) {
  std::string names = "URI:" + ToUri(principal);
  const bool serves = principal.role == Role::kCoordinator;
  if (serves == hosts.empty()) {
    return Fail(Code::kInvalidArgument, "{}",
                serves ? "a coordinator's certificate needs the names by which "
                         "clients reach it (--host)"
                       : "only a coordinator's certificate has --host");
  }
  std::set<std::string> known;
  for (const std::string& host : hosts) {
    std::array<unsigned char, 16> address{};
    const bool ip = inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
                    inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
    if (!ip) UCUDNN_RETURN_IF_ERROR(CheckPrincipalName("--host", host));
    if (known.insert(host).second) names += (ip ? ",IP:" : ",DNS:") + host;
    // Clients may leave the domain out.
    const std::string shorter = host.substr(0, host.find('.'));
    if (!ip && known.insert(shorter).second) names += ",DNS:" + shorter;
  }
  return names;
}

}  // namespace

Status InitAuthority(const std::string& folder, const std::string& cluster,
                     std::chrono::seconds lifetime) {
  UCUDNN_RETURN_IF_ERROR(CheckPrincipalName("--cluster", cluster));
  if (cluster.size() > 64) {
    return Fail(Code::kInvalidArgument,
                "--cluster has {} characters; up to 64 are accepted",
                cluster.size());
  }
  if (std::filesystem::exists(CaKeyPath(folder)) ||
      std::filesystem::exists(CaPath(folder))) {
    return Fail(Code::kAlreadyExists, "{} has an authority already", folder);
  }
  Authority authority;
  authority.key = NewKey();
  authority.certificate = NewCertificate(authority.key, cluster, lifetime);
  X509* x = authority.certificate.get();
  X509_set_issuer_name(x, X509_get_subject_name(x));
  UCUDNN_RETURN_IF_ERROR(
      Extend(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  UCUDNN_RETURN_IF_ERROR(
      Extend(x, x, NID_key_usage, "critical,keyCertSign,cRLSign"));
  UCUDNN_RETURN_IF_ERROR(Extend(x, x, NID_subject_key_identifier, "hash"));
  UCUDNN_RETURN_IF_ERROR(Sign(x, authority.key));
  UCUDNN_RETURN_IF_ERROR(
      ReplaceFile(CaKeyPath(folder), KeyText(authority.key), 0600));
  UCUDNN_RETURN_IF_ERROR(ReplaceFile(
      CaPath(folder), CertificateText(authority.certificate), 0644));
  return WriteRevoked(folder, authority, CrlPtr(X509_CRL_new()));
}

Result<std::string> IssueCertificate(const std::string& folder,
                                     const IssueOptions& options) {
  UCUDNN_RETURN_IF_ERROR(CheckPrincipalName("the name", options.name));
  UCUDNN_ASSIGN_OR_RETURN(const Authority authority, OpenAuthority(folder));
  UCUDNN_ASSIGN_OR_RETURN(const std::string cluster, ClusterOf(authority));
  UCUDNN_ASSIGN_OR_RETURN(
      const std::string names,
      AlternativeNames({cluster, options.role, options.name}, options.hosts));
  const KeyPtr key = NewKey();
  const X509Ptr certificate =
      NewCertificate(key, options.name, options.lifetime);
  X509* x = certificate.get();
  X509* issuer = authority.certificate.get();
  X509_set_issuer_name(x, X509_get_subject_name(issuer));
  const bool serves = options.role == Role::kCoordinator;
  const std::vector<std::pair<int, std::string>> extensions = {
      {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, serves ? "serverAuth" : "clientAuth"},
      {NID_subject_key_identifier, "hash"},
      {NID_authority_key_identifier, "keyid"},
      {NID_subject_alt_name, names}};
  for (const auto& [nid, value] : extensions) {
    UCUDNN_RETURN_IF_ERROR(Extend(x, issuer, nid, value));
  }
  UCUDNN_RETURN_IF_ERROR(Sign(x, authority.key));
  const std::string base =
      fmt::format("{}/{}-{}", folder, Name(options.role), options.name);
  UCUDNN_RETURN_IF_ERROR(ReplaceFile(base + ".key", KeyText(key), 0600));
  UCUDNN_RETURN_IF_ERROR(
      ReplaceFile(base + ".crt", CertificateText(certificate), 0644));
  return base + ".crt";
}

Status RevokeCertificate(const std::string& folder, const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const Authority authority, OpenAuthority(folder));
  UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                          OfInput(ReadFile(path, 1_MiB)));
  auto certificate = ParseCertificate(text);
  if (!certificate) return Within(path, std::move(certificate).error());
  if (X509_verify(certificate->get(), authority.key.get()) != 1) {
    ERR_clear_error();
    return Fail(Code::kInvalidArgument, "{} was not issued by {}", path,
                CaPath(folder));
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::string before,
                          ReadFile(RevokedPath(folder), 16_MiB));
  CrlPtr list(
      PEM_read_bio_X509_CRL(BioOf(before).get(), nullptr, nullptr, nullptr));
  if (list == nullptr) {
    return Fail(Code::kInvalidArgument, "{} is no revocation list (PEM): {}",
                RevokedPath(folder), OpensslReason());
  }
  OpensslPtr<X509_REVOKED, X509_REVOKED_free> revoked(X509_REVOKED_new());
  X509_REVOKED_set_serialNumber(revoked.get(),
                                X509_get_serialNumber(certificate->get()));
  const OpensslPtr<ASN1_TIME, ASN1_TIME_free> now(X509_gmtime_adj(nullptr, 0));
  X509_REVOKED_set_revocationDate(revoked.get(), now.get());
  X509_CRL_add0_revoked(list.get(), revoked.release());
  return WriteRevoked(folder, authority, std::move(list));
}

}  // namespace ucudnn
