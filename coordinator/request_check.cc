#include "coordinator/request_check.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <string>

#include "base/text.h"
#include "coordinator/limits.h"

namespace ucudnn {
namespace {

constexpr std::size_t kMaxNameLength = 200;

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// "batch", or of a list "ranks[3]".
std::string NameOf(const FieldDescriptor& field, int index) {
  return field.is_repeated() ? fmt::format("{}[{}]", field.name(), index)
                             : field.name();
}

Status CheckText(const FieldDescriptor& field, int index,
                 const std::string& text) {
  if (text.size() <= kMaxTextBytes) return {};
  return Fail(
      Code::kInvalidArgument, "{} '{}' is {} bytes long; up to {} are accepted",
      NameOf(field, index), Excerpt(text, 40), text.size(), kMaxTextBytes);
}

// No number of a request may be negative, nor infinite or none at all.
template <class Number>
Status CheckNumber(const FieldDescriptor& field, int index, Number number) {
  if (number >= 0 && number <= std::numeric_limits<Number>::max()) return {};
  return Fail(Code::kInvalidArgument, "{} is {}; 0 or more is accepted",
              NameOf(field, index), number);
}

// `one` and `of_list` are Reflection's getters of the field's type.
template <class One, class OfList>
Status CheckNumbers(const Message& message, const FieldDescriptor& field,
                    const One& one, const OfList& of_list) {
  const Reflection& r = *message.GetReflection();
  if (!field.is_repeated()) {
    return CheckNumber(field, 0, (r.*one)(message, &field));
  }
  for (int i = 0; i < r.FieldSize(message, &field); ++i) {
    UCUDNN_RETURN_IF_ERROR(
        CheckNumber(field, i, (r.*of_list)(message, &field, i)));
  }
  return {};
}

// Errors of the message in a field begin with its path: "plan.batch is -5".
Status CheckInside(const FieldDescriptor& field, int index,
                   const Message& message) {
  Status status = CheckRequest(message);
  if (!status) {
    status.error().message =
        fmt::format("{}.{}", NameOf(field, index), status.error().message);
  }
  return status;
}

Status CheckField(const Message& message, const FieldDescriptor& field) {
  const Reflection& r = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    // The content of a file is checked where it is read.
    if (field.type() == FieldDescriptor::TYPE_BYTES) return {};
    std::string scratch;
    if (!field.is_repeated()) {
      return CheckText(field, 0,
                       r.GetStringReference(message, &field, &scratch));
    }
    for (int i = 0; i < r.FieldSize(message, &field); ++i) {
      UCUDNN_RETURN_IF_ERROR(CheckText(
          field, i,
          r.GetRepeatedStringReference(message, &field, i, &scratch)));
    }
    return {};
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return CheckNumbers(message, field, &Reflection::GetInt32,
                          &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return CheckNumbers(message, field, &Reflection::GetInt64,
                          &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return CheckNumbers(message, field, &Reflection::GetDouble,
                          &Reflection::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
    default:
      return {};
  }
  if (!field.is_repeated()) {
    if (!r.HasField(message, &field)) return {};
    return CheckInside(field, 0, r.GetMessage(message, &field));
  }
  for (int i = 0; i < r.FieldSize(message, &field); ++i) {
    UCUDNN_RETURN_IF_ERROR(
        CheckInside(field, i, r.GetRepeatedMessage(message, &field, i)));
  }
  return {};
}

}  // namespace

Status CheckName(const std::string& name) {
  const bool ok =
      !name.empty() && name.size() <= kMaxNameLength && name != "." &&
      name != ".." &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
      });
  if (ok) return {};
  return Fail(Code::kInvalidArgument,
              "'{}' is not a name; 1 to {} letters, digits, '.', '_' and '-' "
              "are accepted, but not '.' and '..'",
              Excerpt(name), kMaxNameLength);
}

Status CheckRequest(const Message& request) {
  const google::protobuf::Descriptor& type = *request.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    UCUDNN_RETURN_IF_ERROR(CheckField(request, *type.field(i)));
  }
  return {};
}

}  // namespace ucudnn
