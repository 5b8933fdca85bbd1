#ifndef UCUDNN_PROTO_JSON_FIELD_H_
#define UCUDNN_PROTO_JSON_FIELD_H_

// How a message's fields look in JSON (json.h).

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

namespace ucudnn {

inline bool IsTime(const google::protobuf::FieldDescriptor& field) {
  return field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT64 &&
         field.name().ends_with("_ns");
}

inline constexpr std::string_view kJsonSuffix = "_json";

inline bool IsJson(const google::protobuf::FieldDescriptor& field) {
  return field.cpp_type() ==
             google::protobuf::FieldDescriptor::CPPTYPE_STRING &&
         field.name().ends_with(kJsonSuffix);
}

// The field's name in JSON.
inline std::string JsonName(const google::protobuf::FieldDescriptor& field) {
  std::string name = field.name();
  if (IsTime(field)) name.replace(name.size() - 2, 2, "us");
  if (IsJson(field)) name.resize(name.size() - kJsonSuffix.size());
  return name;
}

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_JSON_FIELD_H_
