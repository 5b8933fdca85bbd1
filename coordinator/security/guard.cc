#include "coordinator/security/guard.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/files/file.h"
#include "base/service/log.h"
#include "coordinator/security/certificate.h"
#include "coordinator/security/openssl.h"
#include "coordinator/security/tokens.h"

namespace ucudnn {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class OpenGuard final : public Guard {
 public:
  Result<std::optional<Principal>> Identify(const Peer&) const override {
    return std::optional<Principal>();
  }
  const GuardFiles* files() const override { return nullptr; }
  std::shared_ptr<SSL_CTX> tls() const override { return nullptr; }
};

// What the files say.
struct Loaded {
  std::shared_ptr<SSL_CTX> tls;
  Principal self;
  std::int64_t expires_ms = 0;
  std::set<std::string> revoked;  // serial numbers
  Tokens tokens;
};

tl::unexpected<Error> Bad(const std::string& path, std::string_view what) {
  return Fail(Code::kInvalidArgument, "{} {}: {}", path, what, OpensslReason());
}

// Of each connection of this process, gRPC's too, which offers no way to say
// so: OpenSSL otherwise keeps 32 KiB of buffers for one that is idle, and makes
// two tickets with each handshake, by which no client of ours comes back.
void SpareConnections() {
  [[maybe_unused]] static const int once = SSL_get_ex_new_index(
      0, nullptr,
      [](void* connection, void*, CRYPTO_EX_DATA*, int, long, void*) {
        auto* const ssl = static_cast<SSL*>(connection);
        SSL_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
        SSL_set_num_tickets(ssl, 0);
      },
      nullptr, nullptr);
}

// Asks for a client's certificate, and takes clients without one: they may have
// a token, or only want to know whether the service is alive.
Result<SslContextPtr> MakeTls(const GuardFiles& files) {
  SslContextPtr tls(SSL_CTX_new(TLS_server_method()));
  UCUDNN_CHECK(tls != nullptr);
  SSL_CTX_set_min_proto_version(tls.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(tls.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_session_cache_mode(tls.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(tls.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_CTX_use_certificate_chain_file(tls.get(), files.cert.c_str()) != 1) {
    return Bad(files.cert, "is no certificate (PEM)");
  }
  if (SSL_CTX_use_PrivateKey_file(tls.get(), files.key.c_str(),
                                  SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(tls.get()) != 1) {
    return Bad(files.key, "is not the private key (PEM) of " + files.cert);
  }
  if (SSL_CTX_load_verify_locations(tls.get(), files.ca.c_str(), nullptr) !=
      1) {
    return Bad(files.ca, "holds no authority's certificate (PEM)");
  }
  SSL_CTX_set_client_CA_list(tls.get(),
                             SSL_load_client_CA_file(files.ca.c_str()));
  SSL_CTX_set_verify(tls.get(), SSL_VERIFY_PEER, nullptr);
  return tls;
}

Result<Loaded> Load(const GuardFiles& files) {
  Loaded loaded;
  UCUDNN_RETURN_IF_ERROR(OfInput(ReadSecret(files.key)));
  UCUDNN_ASSIGN_OR_RETURN(const std::string ca,
                          OfInput(ReadFile(files.ca, 1_MiB)));
  UCUDNN_ASSIGN_OR_RETURN(const std::string cert,
                          OfInput(ReadFile(files.cert, 1_MiB)));
  UCUDNN_ASSIGN_OR_RETURN(SslContextPtr tls, MakeTls(files));
  loaded.tls = {tls.release(), SSL_CTX_free};
  const auto facts = [&]() -> Result<CertificateFacts> {
    UCUDNN_ASSIGN_OR_RETURN(const X509Ptr certificate, ParseCertificate(cert));
    return FactsOf(*certificate);
  }();
  if (!facts || facts->principal.role != Role::kCoordinator) {
    return Fail(Code::kInvalidArgument,
                "{} is not a coordinator's certificate, named "
                "spiffe://CLUSTER/coordinator/NAME: {}",
                files.cert,
                facts ? ToUri(facts->principal) : facts.error().message);
  }
  loaded.self = facts->principal;
  loaded.expires_ms = facts->expires_ms;
  if (!files.revoked.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                            OfInput(ReadFile(files.revoked, 16_MiB)));
    auto revoked = ReadRevoked(text, ca);
    if (!revoked) return Within(files.revoked, std::move(revoked).error());
    loaded.revoked = *std::move(revoked);
  }
  if (!files.tokens.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                            OfInput(ReadSecret(files.tokens)));
    auto tokens = ParseTokens(text);
    if (!tokens) return Within(files.tokens, std::move(tokens).error());
    loaded.tokens = *std::move(tokens);
  }
  return loaded;
}

// Tells whether a file is another one than before.
std::string StampOf(const std::string& path) {
  struct stat status = {};
  if (path.empty() || stat(path.c_str(), &status) != 0) return "";
  return fmt::format("{}.{}.{}.{}", status.st_ino, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

std::string StampsOf(const GuardFiles& files) {
  std::string stamps;
  for (const std::string& path :
       {files.ca, files.cert, files.key, files.revoked, files.tokens}) {
    stamps += StampOf(path) + " ";
  }
  return stamps;
}

class FileGuard final : public Guard {
 public:
  FileGuard(GuardFiles files, std::string stamps, Loaded loaded)
      : files_(std::move(files)),
        stamps_(std::move(stamps)),
        loaded_(std::make_shared<const Loaded>(std::move(loaded))) {}

  Result<std::optional<Principal>> Identify(const Peer& peer) const override {
    return Find(peer);
  }

  std::map<std::string, std::int64_t> Expiries() const override {
    std::map<std::string, std::int64_t> first = {
        {"coordinator", Current()->expires_ms / 1000}};
    // An old certificate does not count once its owner shows a newer one.
    std::map<std::pair<Role, std::string>, std::int64_t> newest;
    const std::lock_guard lock(mutex_);
    for (const auto& [pem, facts] : certificates_) {
      const Principal& who = facts->principal;
      std::int64_t& ms = newest[{who.role, who.name}];
      ms = std::max(ms, facts->expires_ms);
    }
    for (const auto& [who, ms] : newest) {
      if (ms < NowMs()) continue;
      const auto [role, added] = first.emplace(Name(who.first), ms / 1000);
      role->second = std::min(role->second, ms / 1000);
    }
    return first;
  }

  const GuardFiles* files() const override { return &files_; }
  std::shared_ptr<SSL_CTX> tls() const override { return Current()->tls; }

 private:
  using Certificates =
      std::unordered_map<std::string, std::shared_ptr<const CertificateFacts>>;

  Result<Principal> Find(const Peer& peer) const {
    const std::shared_ptr<const Loaded> loaded = Current();
    if (!peer.authorization.empty()) {
      const std::string token = TokenIn(peer.authorization);
      const auto found = loaded->tokens.find(HashOf(token));
      if (token.empty() || found == loaded->tokens.end()) {
        return Fail(Code::kUnauthenticated,
                    "the token is not known here; it may have been revoked");
      }
      Principal principal = found->second;
      principal.cluster = loaded->self.cluster;
      return principal;
    }
    if (peer.certificate.empty()) {
      return Fail(Code::kUnauthenticated,
                  "a certificate (UCUDNN_CERT and UCUDNN_KEY) or a token "
                  "(UCUDNN_TOKEN_FILE) is required");
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto facts, FactsIn(peer.certificate));
    const Principal& principal = facts->principal;
    if (principal.cluster != loaded->self.cluster) {
      return Fail(Code::kUnauthenticated,
                  "the certificate of {} is of another cluster; those of {} "
                  "are accepted",
                  ToUri(principal), loaded->self.cluster);
    }
    // A connection may outlast its certificate.
    if (facts->expires_ms < NowMs()) {
      return Fail(Code::kUnauthenticated, "the certificate of {} has expired",
                  ToUri(principal));
    }
    if (loaded->revoked.contains(facts->serial)) {
      return Fail(Code::kUnauthenticated, "the certificate of {} is revoked",
                  ToUri(principal));
    }
    return principal;
  }

  // Parsed once, not with each call.
  Result<std::shared_ptr<const CertificateFacts>> FactsIn(
      const std::string& pem) const {
    constexpr std::size_t kMaxKept = 20'000;
    {
      const std::lock_guard lock(mutex_);
      const auto known = certificates_.find(pem);
      if (known != certificates_.end()) return known->second;
    }
    UCUDNN_ASSIGN_OR_RETURN(const X509Ptr certificate, ParseCertificate(pem));
    UCUDNN_ASSIGN_OR_RETURN(CertificateFacts facts, FactsOf(*certificate));
    auto kept = std::make_shared<const CertificateFacts>(std::move(facts));
    const std::lock_guard lock(mutex_);
    if (certificates_.size() >= kMaxKept) certificates_.clear();
    certificates_[pem] = kept;
    return kept;
  }

  // Loads the files again if they changed, looking once a second.
  std::shared_ptr<const Loaded> Current() const {
    constexpr std::chrono::seconds kLook{1};
    const std::lock_guard lock(mutex_);
    const auto now = SteadyClock::now();
    if (now < look_) return loaded_;
    look_ = now + kLook;
    std::string stamps = StampsOf(files_);
    if (stamps == stamps_) return loaded_;
    stamps_ = std::move(stamps);
    if (auto loaded = Load(files_)) {
      loaded_ = std::make_shared<const Loaded>(*std::move(loaded));
      spdlog::info("event=credentials_reloaded");
    } else {
      spdlog::error("event=credentials_not_reloaded error={}",
                    Quoted(loaded.error().message));
    }
    return loaded_;
  }

  const GuardFiles files_;
  mutable std::mutex mutex_;
  mutable std::string stamps_;
  mutable std::shared_ptr<const Loaded> loaded_;
  mutable SteadyClock::time_point look_;
  mutable Certificates certificates_;
};

}  // namespace

const Guard& Guard::None() {
  static const OpenGuard guard;
  return guard;
}

Result<std::unique_ptr<Guard>> Guard::Open(const GuardFiles& files) {
  SpareConnections();
  // Before the files are read, so that a change meanwhile is noticed.
  std::string stamps = StampsOf(files);
  UCUDNN_ASSIGN_OR_RETURN(Loaded loaded, Load(files));
  return std::make_unique<FileGuard>(files, std::move(stamps),
                                     std::move(loaded));
}

}  // namespace ucudnn
