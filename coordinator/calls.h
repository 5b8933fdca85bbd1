#ifndef UCUDNN_COORDINATOR_CALLS_H_
#define UCUDNN_COORDINATOR_CALLS_H_

// The calls of the coordinator: one table (calls.cc), which the dispatcher,
// gRPC, REST and the test of openapi.json read. A new call is a method of a
// service, a row of that table, and its rpc in proto/ucudnn/v1.

#include <google/protobuf/message.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "coordinator/security/access.h"

namespace ucudnn {

struct Coordinator;

// Which of the dispatcher's lanes (dispatcher.h) a call takes.
enum class CallSort {
  kShort,
  kLong,  // makes plans, reads files or moves whole profiles
  kHeartbeat,
};

// What a call answers: a message, or one that is serialised already. Exactly
// one of both is null.
struct Answer {
  std::unique_ptr<google::protobuf::Message> message;
  std::shared_ptr<const std::string> bytes;
};

struct CallSpec {
  using Message = google::protobuf::Message;

  std::string_view name;  // of the rpc
  Rule rule;
  CallSort sort = CallSort::kShort;
  // Of REST; empty: none. "GET /v1/jobs/{job_id}/ranks/{rank}?key&key=field":
  // the fields of the request that the path and the query give. POST has a body
  // of JSON, and PUT one that is the field `content`.
  std::string_view route;
  // What the body's Content-Type may be.
  std::span<const std::string_view> body_types;
  bool has_tag = false;  // REST's answer has an ETag

  std::unique_ptr<Message> (*new_request)() = nullptr;
  std::unique_ptr<Message> (*new_response)() = nullptr;
  Claim (*claim)(const Message& request) = nullptr;
  // `who` is null where callers are unknown; otherwise what people do is kept
  // under their names.
  Result<Answer> (*run)(Coordinator& coordinator, const Principal* who,
                        Message& request) = nullptr;
};

std::span<const CallSpec> Calls();
// Null if there is none of that name.
const CallSpec* FindCall(std::string_view name);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_CALLS_H_
