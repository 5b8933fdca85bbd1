#include "proto/json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text.h"
#include "base/units.h"
#include "proto/json_field.h"

namespace ucudnn {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

template <class... Args>
tl::unexpected<Error> Bad(const std::string& path, const Json& value,
                          std::string_view accepted) {
  return Fail(
      Code::kInvalidArgument, "{}: {} is given; {} is accepted", path,
      Excerpt(value.dump(-1, ' ', false, Json::error_handler_t::replace)),
      accepted);
}

Result<std::int64_t> Integer(const std::string& path, const Json& value,
                             std::int64_t min, std::int64_t max) {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(max)) {
    return Bad(path, value, fmt::format("a whole number up to {}", max));
  }
  if (!value.is_number_integer() || value.get<std::int64_t>() < min ||
      value.get<std::int64_t>() > max) {
    return Bad(path, value,
               fmt::format("a whole number from {} to {}", min, max));
  }
  return value.get<std::int64_t>();
}

Status Fill(const std::string& path, const Json& json, Message* message);

// Sets `field` (or appends to it, if repeated) from `value`.
Status Set(const std::string& path, const Json& value,
           const FieldDescriptor& field, Message* message) {
  const Reflection& r = *message->GetReflection();
  const bool repeated = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      UCUDNN_ASSIGN_OR_RETURN(
          const std::int64_t n,
          Integer(path, value, std::numeric_limits<std::int32_t>::min(),
                  std::numeric_limits<std::int32_t>::max()));
      const auto small = static_cast<std::int32_t>(n);
      repeated ? r.AddInt32(message, &field, small)
               : r.SetInt32(message, &field, small);
      return {};
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      std::int64_t n = 0;
      if (IsTime(field)) {
        const Result<Nanoseconds> time =
            value.is_number()
                ? FromMicroseconds(value.get<double>())
                : Fail(Code::kInvalidArgument, "it is not a number");
        if (!time) {
          return Bad(path, value, "a number of microseconds up to 146 years");
        }
        n = time->count();
      } else {
        UCUDNN_ASSIGN_OR_RETURN(
            n, Integer(path, value, std::numeric_limits<std::int64_t>::min(),
                       std::numeric_limits<std::int64_t>::max()));
      }
      repeated ? r.AddInt64(message, &field, n)
               : r.SetInt64(message, &field, n);
      return {};
    }
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (!value.is_number()) return Bad(path, value, "a number");
      repeated ? r.AddDouble(message, &field, value.get<double>())
               : r.SetDouble(message, &field, value.get<double>());
      return {};
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!value.is_boolean()) return Bad(path, value, "true or false");
      repeated ? r.AddBool(message, &field, value.get<bool>())
               : r.SetBool(message, &field, value.get<bool>());
      return {};
    case FieldDescriptor::CPPTYPE_STRING: {
      if (!IsJson(field) && !value.is_string()) {
        return Bad(path, value, "a string");
      }
      std::string text =
          IsJson(field) ? value.dump() : value.get<std::string>();
      repeated ? r.AddString(message, &field, std::move(text))
               : r.SetString(message, &field, std::move(text));
      return {};
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Fill(path, value,
                  repeated ? r.AddMessage(message, &field)
                           : r.MutableMessage(message, &field));
    default:
      return Fail(Code::kInternal, "{}: the field's type is not supported",
                  path);
  }
}

Status Fill(const std::string& path, const Json& json, Message* message) {
  if (!json.is_object()) {
    return Bad(path.empty() ? "the body" : path, json, "an object");
  }
  const auto& descriptor = *message->GetDescriptor();
  for (const auto& [key, value] : json.items()) {
    const FieldDescriptor* field = nullptr;
    std::string known;
    for (int i = 0; i < descriptor.field_count(); ++i) {
      const std::string name = JsonName(*descriptor.field(i));
      if (name == key) field = descriptor.field(i);
      known += (known.empty() ? "" : ", ") + name;
    }
    const std::string at = path.empty() ? key : path + "." + key;
    if (field == nullptr) {
      return Fail(Code::kInvalidArgument, "{}: no such field; accepted are {}",
                  Excerpt(at, 200), known);
    }
    if (value.is_null() && (field->has_presence() || IsJson(*field))) continue;
    if (!field->is_repeated()) {
      UCUDNN_RETURN_IF_ERROR(Set(at, value, *field, message));
      continue;
    }
    if (!value.is_array()) return Bad(at, value, "a list");
    for (std::size_t i = 0; i < value.size(); ++i) {
      UCUDNN_RETURN_IF_ERROR(
          Set(fmt::format("{}[{}]", at, i), value[i], *field, message));
    }
  }
  return {};
}

}  // namespace

Status FromJson(const Json& json, Message* message) {
  return Fill("", json, message);
}

}  // namespace ucudnn
