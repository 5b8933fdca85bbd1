// Messages written as JSON without a tree of values between.

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

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
  return value.dump(-1, ' ', false, JsonValue::error_handler_t::replace);
}

bool IsPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return c >= ' ' && c < 0x7F && c != '"' && c != '\\';
  });
}

class JsonWriter {
 public:
  explicit JsonWriter(bool indented) : indented_(indented) {}

  void Append(const Message& message) {
    const auto& descriptor = *message.GetDescriptor();
    const Reflection& r = *message.GetReflection();
    if (descriptor.field_count() == 0) {
      text_ += "{}";
      return;
    }
    Open('{');
    for (int i = 0; i < descriptor.field_count(); ++i) {
      const FieldDescriptor& field = *descriptor.field(i);
      Next(i);
      text_ += '"';
      text_ += JsonName(field);
      text_ += indented_ ? "\": " : "\":";
      if (field.is_repeated()) {
        AppendList(message, field);
      } else if (!field.has_presence() || r.HasField(message, &field)) {
        AppendValue(message, field, 0);
      } else {
        text_ += "null";
      }
    }
    Close('}');
  }

  std::string Take() { return std::move(text_); }

 private:
  void Open(char bracket) {
    text_ += bracket;
    ++depth_;
  }
  // Before the value at `index` of a list or an object.
  void Next(int index) {
    if (index > 0) text_ += ',';
    BreakLine();
  }
  void Close(char bracket) {
    --depth_;
    BreakLine();
    text_ += bracket;
  }
  void BreakLine() {
    if (!indented_) return;
    text_ += '\n';
    text_.append(depth_ * 2, ' ');
  }

  void AppendText(const std::string& text) {
    if (!IsPlain(text)) {
      text_ += Dumped(text);
      return;
    }
    text_ += '"';
    text_ += text;
    text_ += '"';
  }

  void AppendInteger(std::int64_t value) {
    const fmt::format_int text(value);
    text_.append(text.data(), text.size());
  }

  void AppendList(const Message& message, const FieldDescriptor& field) {
    const int size = message.GetReflection()->FieldSize(message, &field);
    if (size == 0) {
      text_ += "[]";
      return;
    }
    Open('[');
    for (int i = 0; i < size; ++i) {
      Next(i);
      AppendValue(message, field, i);
    }
    Close(']');
  }

  // The field's value, or the one at `index` if it is repeated.
  void AppendValue(const Message& message, const FieldDescriptor& field,
                   int index) {
    const Reflection& r = *message.GetReflection();
    const bool repeated = field.is_repeated();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return AppendInteger(repeated
                                 ? r.GetRepeatedInt32(message, &field, index)
                                 : r.GetInt32(message, &field));
      case FieldDescriptor::CPPTYPE_INT64: {
        const std::int64_t value =
            repeated ? r.GetRepeatedInt64(message, &field, index)
                     : r.GetInt64(message, &field);
        if (!IsTime(field)) return AppendInteger(value);
        text_ += Dumped(Microseconds(Nanoseconds(value)));
        return;
      }
      case FieldDescriptor::CPPTYPE_DOUBLE:
        text_ += Dumped(repeated ? r.GetRepeatedDouble(message, &field, index)
                                 : r.GetDouble(message, &field));
        return;
      case FieldDescriptor::CPPTYPE_BOOL:
        text_ += (repeated ? r.GetRepeatedBool(message, &field, index)
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
        if (!IsJson(field)) return AppendText(text);
        text_ += text.empty() ? "null" : text;
        return;
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Append(repeated ? r.GetRepeatedMessage(message, &field, index)
                               : r.GetMessage(message, &field));
      default:
        UCUDNN_CHECK(false);  // a field type that ucudnn.v1 does not use
    }
  }

  const bool indented_;
  std::size_t depth_ = 0;
  std::string text_;
};

std::string Written(const Message& message, bool indented) {
  JsonWriter writer(indented);
  writer.Append(message);
  return writer.Take();
}

}  // namespace

std::string JsonText(const Message& message) { return Written(message, true); }

std::string JsonLine(const Message& message) { return Written(message, false); }

nlohmann::ordered_json ToJson(const Message& message) {
  return JsonValue::parse(JsonLine(message));
}

}  // namespace ucudnn
