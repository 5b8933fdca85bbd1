#include "coordinator/request_check.h"

#include <string>

#include "base/text.h"
#include "coordinator/limits.h"

namespace ucudnn {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

Status CheckText(const FieldDescriptor& field, const std::string& text) {
  if (text.size() <= kMaxTextBytes) return {};
  return Fail(Code::kInvalidArgument,
              "{} '{}' is {} bytes long; up to {} are accepted", field.name(),
              Excerpt(text, 40), text.size(), kMaxTextBytes);
}

Status CheckField(const Message& message, const FieldDescriptor& field) {
  const Reflection& r = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    // The content of a file is checked where it is read.
    if (field.type() == FieldDescriptor::TYPE_BYTES) return {};
    std::string scratch;
    if (!field.is_repeated()) {
      return CheckText(field, r.GetStringReference(message, &field, &scratch));
    }
    for (int i = 0; i < r.FieldSize(message, &field); ++i) {
      UCUDNN_RETURN_IF_ERROR(CheckText(
          field, r.GetRepeatedStringReference(message, &field, i, &scratch)));
    }
    return {};
  }
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return {};
  if (!field.is_repeated()) {
    if (!r.HasField(message, &field)) return {};
    return CheckRequest(r.GetMessage(message, &field));
  }
  for (int i = 0; i < r.FieldSize(message, &field); ++i) {
    UCUDNN_RETURN_IF_ERROR(
        CheckRequest(r.GetRepeatedMessage(message, &field, i)));
  }
  return {};
}

}  // namespace

Status CheckRequest(const Message& request) {
  const google::protobuf::Descriptor& type = *request.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    UCUDNN_RETURN_IF_ERROR(CheckField(request, *type.field(i)));
  }
  return {};
}

}  // namespace ucudnn
