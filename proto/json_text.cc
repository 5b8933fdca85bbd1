// Messages written as JSON without a tree of values between.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/units.h"
#include "proto/json.h"
#include "proto/json_field.h"

namespace ucudnn {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using JsonValue = nlohmann::ordered_json;

std::string Dumped(const JsonValue& value) {
  return value.dump(2, ' ', false, JsonValue::error_handler_t::replace);
}

bool IsPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return c >= ' ' && c < 0x7F && c != '"' && c != '\\';
  });
}

void AppendText(const std::string& text, std::string* out) {
  if (!IsPlain(text)) {
    *out += Dumped(text);
    return;
  }
  *out += '"';
  *out += text;
  *out += '"';
}

void BreakLine(int depth, std::string* out) {
  *out += '\n';
  out->append(static_cast<std::size_t>(depth) * 2, ' ');
}

// JSON within JSON. Its own line breaks are between its values: those in texts
// are escaped.
void AppendNested(const std::string& text, int depth, std::string* out) {
  for (const char c : Dumped(JsonOf(text))) {
    if (c == '\n') {
      BreakLine(depth, out);
    } else {
      *out += c;
    }
  }
}

void AppendMessage(const Message& message, int depth, std::string* out);

void AppendInteger(std::int64_t value, std::string* out) {
  const fmt::format_int text(value);
  out->append(text.data(), text.size());
}

// The field's value, or the one at `index` if it is repeated.
void AppendValue(const Message& message, const FieldDescriptor& field,
                 int index, int depth, std::string* out) {
  const Reflection& r = *message.GetReflection();
  const bool repeated = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return AppendInteger(repeated ? r.GetRepeatedInt32(message, &field, index)
                                    : r.GetInt32(message, &field),
                           out);
    case FieldDescriptor::CPPTYPE_INT64: {
      const std::int64_t value =
          repeated ? r.GetRepeatedInt64(message, &field, index)
                   : r.GetInt64(message, &field);
      if (!IsTime(field)) return AppendInteger(value, out);
      *out += Dumped(Microseconds(Nanoseconds(value)));
      return;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE:
      *out += Dumped(repeated ? r.GetRepeatedDouble(message, &field, index)
                              : r.GetDouble(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      *out += (repeated ? r.GetRepeatedBool(message, &field, index)
                        : r.GetBool(message, &field))
                  ? "true"
                  : "false";
      return;
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string scratch;
      const std::string& text =
          repeated
              ? r.GetRepeatedStringReference(message, &field, index, &scratch)
              : r.GetStringReference(message, &field, &scratch);
      return IsJson(field) ? AppendNested(text, depth, out)
                           : AppendText(text, out);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AppendMessage(repeated
                               ? r.GetRepeatedMessage(message, &field, index)
                               : r.GetMessage(message, &field),
                           depth, out);
    default:
      UCUDNN_CHECK(false);  // a field type that ucudnn.v1 does not use
  }
}

void AppendList(const Message& message, const FieldDescriptor& field, int depth,
                std::string* out) {
  const int size = message.GetReflection()->FieldSize(message, &field);
  if (size == 0) {
    *out += "[]";
    return;
  }
  *out += '[';
  for (int i = 0; i < size; ++i) {
    if (i > 0) *out += ',';
    BreakLine(depth + 1, out);
    AppendValue(message, field, i, depth + 1, out);
  }
  BreakLine(depth, out);
  *out += ']';
}

void AppendMessage(const Message& message, int depth, std::string* out) {
  const auto& descriptor = *message.GetDescriptor();
  const Reflection& r = *message.GetReflection();
  if (descriptor.field_count() == 0) {
    *out += "{}";
    return;
  }
  *out += '{';
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (i > 0) *out += ',';
    BreakLine(depth + 1, out);
    *out += '"';
    *out += JsonName(field);
    *out += "\": ";
    if (field.is_repeated()) {
      AppendList(message, field, depth + 1, out);
    } else if (!field.has_presence() || r.HasField(message, &field)) {
      AppendValue(message, field, 0, depth + 1, out);
    } else {
      *out += "null";
    }
  }
  BreakLine(depth, out);
  *out += '}';
}

}  // namespace

std::string JsonText(const Message& message) {
  std::string text;
  AppendMessage(message, 0, &text);
  return text;
}

}  // namespace ucudnn
