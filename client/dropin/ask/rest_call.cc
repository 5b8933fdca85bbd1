#include "client/dropin/ask/rest_call.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "base/files/json_object.h"
#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::size_t kMaxAnswer = 16U << 20;
constexpr std::size_t kMaxReason = 1024;

// Taking less than there is ends the call: CURLE_WRITE_ERROR.
std::size_t Take(char* data, std::size_t size, std::size_t count, void* to) {
  auto& body = *static_cast<std::string*>(to);
  const std::size_t bytes = size * count;
  if (bytes > kMaxAnswer - body.size()) return 0;
  try {
    body.append(data, bytes);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return bytes;
}

// `answered`: the coordinator had begun to answer.
tl::unexpected<Error> Failed(CURLcode done, const std::string& why,
                             bool answered, const RestCall& call) {
  const CredentialFiles& files = call.credentials;
  switch (done) {
    case CURLE_OPERATION_TIMEDOUT:
      return Fail(Code::kDeadlineExceeded, "{}", why);
    case CURLE_WRITE_ERROR:
      return Fail(Code::kUnavailable, "an answer of more than 16 MiB");
    case CURLE_SSL_CACERT_BADFILE:
      return Fail(Code::kInvalidArgument,
                  "{} holds no authority's certificate (PEM): {}", files.ca,
                  why);
    case CURLE_SSL_CERTPROBLEM:
      return Fail(Code::kInvalidArgument,
                  "{} and {} are not a certificate and its private key (PEM, "
                  "without a passphrase): {}",
                  files.cert, files.key, why);
    case CURLE_PEER_FAILED_VERIFICATION:
      return Fail(Code::kFailedPrecondition,
                  "the coordinator's certificate is not accepted: {}; one for "
                  "{} that an authority in {} signed is accepted",
                  why, call.address.substr(0, call.address.rfind(':')),
                  files.ca);
    case CURLE_SSL_CONNECT_ERROR:
      return Fail(Code::kFailedPrecondition, "the TLS handshake fails: {}{}",
                  why,
                  files.cert.empty()
                      ? ""
                      : "; we show the certificate in " + files.cert);
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
      if (answered) break;
      if (!files.cert.empty()) {
        // TLS 1.3 refuses a client's certificate after the handshake.
        return Fail(Code::kUnauthenticated,
                    "{}, as if the certificate in {} were not accepted; a "
                    "valid one that the coordinator's authority signed is",
                    why, files.cert);
      }
      if (!files.ca.empty()) break;
      [[fallthrough]];
    case CURLE_GOT_NOTHING:  // of TLS or gRPC
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return Fail(Code::kFailedPrecondition,
                  "no REST is spoken there{}: {}; the address of a "
                  "coordinator's --http is accepted{}",
                  files.ca.empty() ? "" : " over TLS", why,
                  files.ca.empty() ? ", over TLS with UCUDNN_CA" : "");
    default:
      break;
  }
  return Fail(Code::kUnavailable, "{}", why);
}

// An answer with another status than 200: application/problem+json.
tl::unexpected<Error> Refused(long status, const std::string& body) {
  std::string detail = body;
  if (const auto problem = ParseJson(body)) {
    JsonObject(*problem, "").ReadOptional("detail", &detail);
  }
  Code code = Code::kUnavailable;
  if (status == 401) code = Code::kUnauthenticated;
  if (status == 403) code = Code::kPermissionDenied;
  if (status == 421) code = Code::kFailedPrecondition;  // the name of the host
  return Fail(code, "the call is refused ({}): {}", status,
              Excerpt(detail, kMaxReason));
}

}  // namespace

Result<std::string> GetOverRest(const Curl& curl, const RestCall& call) {
  const CredentialFiles& files = call.credentials;
  std::string body;
  std::array<char, CURL_ERROR_SIZE> reason{};  // written until the cleanup
  const std::unique_ptr<CURL, void (*)(CURL*)> easy(curl.curl_easy_init(),
                                                    curl.curl_easy_cleanup);
  if (easy == nullptr) {
    return Fail(Code::kResourceExhausted, "libcurl cannot start a call");
  }
  CURLcode unset = CURLE_OK;
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode done = curl.curl_easy_setopt(easy.get(), option, value);
    if (done != CURLE_OK) unset = done;
  };
  const std::string url = fmt::format("{}://{}{}",
                                      files.ca.empty() ? "http" : "https",
                                      call.address, call.path);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      call.deadline - std::chrono::steady_clock::now());
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_TIMEOUT_MS, std::max(1L, static_cast<long>(left.count())));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROXY, "");  // whatever http_proxy says
  set(CURLOPT_WRITEFUNCTION, &Take);
  set(CURLOPT_WRITEDATA, &body);
  set(CURLOPT_ERRORBUFFER, reason.data());
  if (!files.ca.empty()) {
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    set(CURLOPT_CAINFO, files.ca.c_str());
    // Otherwise the system's authorities would be accepted, too.
    set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  if (!files.cert.empty()) {
    set(CURLOPT_SSLCERT, files.cert.c_str());
    set(CURLOPT_SSLKEY, files.key.c_str());
    set(CURLOPT_KEYPASSWD, "");  // or OpenSSL would ask the terminal
  }
  if (!call.token.empty()) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    set(CURLOPT_XOAUTH2_BEARER, call.token.c_str());
  }
  if (unset != CURLE_OK) {
    return Fail(Code::kFailedPrecondition, "libcurl {} cannot ask so: {}",
                curl.curl_version_info(CURLVERSION_NOW)->version,
                curl.curl_easy_strerror(unset));
  }
  const CURLcode done = curl.curl_easy_perform(easy.get());
  long status = 0;
  curl.curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  if (done != CURLE_OK) {
    const char* const why =
        reason[0] == '\0' ? curl.curl_easy_strerror(done) : reason.data();
    return Failed(done, Excerpt(why, kMaxReason), status != 0, call);
  }
  if (status != 200) return Refused(status, body);
  return body;
}

}  // namespace ucudnn
