#ifndef UCUDNN_PROTO_JSON_H_
#define UCUDNN_PROTO_JSON_H_

// Messages as JSON, for REST, `-o json` and plan files. It differs from
// protobuf's own mapping: names stay as in the .proto file, 64-bit integers are
// JSON numbers, a field *_ns is a number *_us of microseconds, a field *_json,
// whose text is JSON, is that JSON without the suffix (null if it is empty),
// every field is present, and an unset optional one is null.

#include <google/protobuf/message.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace ucudnn {

nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

// The text of ToJson, indented by two spaces, in a tenth of the time. Bytes
// that are not UTF-8 are replaced.
std::string JsonText(const google::protobuf::Message& message);

// Fills `message` from `json`. Fields may be absent or null and then keep
// their value. kInvalidArgument, naming the path, the value and what is
// accepted: a field is unknown, of the wrong type or out of range.
Status FromJson(const nlohmann::ordered_json& json,
                google::protobuf::Message* message);

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_JSON_H_
