#ifndef UCUDNN_PROTO_JSON_H_
#define UCUDNN_PROTO_JSON_H_

// Messages as JSON, for REST, `-o json` and plan files. It differs from
// protobuf's own mapping: names stay as in the .proto file, 64-bit integers are
// JSON numbers, a field *_ns is a number *_us of microseconds, a field *_json
// is the JSON that it holds, without the suffix (null if it is empty), every
// field is present, and an unset optional one is null.

#include <google/protobuf/message.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace ucudnn {

// Indented by two spaces, but for the text of *_json fields, which is copied as
// it is. Bytes that are not UTF-8 are replaced.
std::string JsonText(const google::protobuf::Message& message);
// The same in one line.
std::string JsonLine(const google::protobuf::Message& message);
// The same as a tree, in ten times the time.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

// Fills `message` from `json`. Fields may be absent, and where ToJson writes
// null also null, and then keep their value. kInvalidArgument, naming the path,
// the value and what is accepted: a field is unknown, of the wrong type or out
// of range.
Status FromJson(const nlohmann::ordered_json& json,
                google::protobuf::Message* message);

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_JSON_H_
