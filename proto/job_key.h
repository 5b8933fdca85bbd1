#ifndef UCUDNN_PROTO_JOB_KEY_H_
#define UCUDNN_PROTO_JOB_KEY_H_

// Proof that a call comes from the job that it names (docs/adr/0033). A job
// picks a secret key, and its id is the key's hash; its ranks send the key with
// each call, and any coordinator can check that without looking anything up.

#include <string>
#include <string_view>

namespace ucudnn {

// The metadata, and over REST the header, that carries the key.
inline constexpr char kJobKeyHeader[] = "ucudnn-job-key";

// 32 random bytes in hexadecimal.
std::string NewJobKey();
// The id of the key's job: the first half of the key's SHA-256 in the form of a
// UUID (RFC 9562, version 8).
std::string JobIdOf(std::string_view key);

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_JOB_KEY_H_
