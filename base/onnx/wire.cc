#include "base/onnx/wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

namespace ucudnn {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;

// About what objects of protobuf take, with their allocation.
constexpr std::int64_t kMessageBytes = 200;
constexpr std::int64_t kTextBytes = 48;
constexpr std::int64_t kNumberBytes = 8;
// The parser refuses models that nest more.
constexpr int kMaxDepth = 100;

// The wire types of protobuf's encoding.
enum WireType : std::uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kFixed32 = 5,
};

class Counter {
 public:
  explicit Counter(std::int64_t max) : max_(max) {}

  std::int64_t total() const { return total_; }

  // Counts the message's fields up to the stream's limit. False where the
  // parser would stop as well, or when the total exceeds the maximum.
  bool Count(const Descriptor& message, int depth, CodedInputStream* in) {
    while (const std::uint32_t tag = in->ReadTag()) {
      const FieldDescriptor* field =
          message.FindFieldByNumber(static_cast<int>(tag >> 3U));
      if (!CountField(field, tag & 7U, depth, in) || total_ > max_) {
        return false;
      }
    }
    return in->ConsumedEntireMessage() || in->BytesUntilLimit() == 0;
  }

 private:
  bool CountField(const FieldDescriptor* field, std::uint32_t type, int depth,
                  CodedInputStream* in) {
    std::uint64_t number = 0;
    switch (type) {
      case kVarint:
        total_ += kNumberBytes;
        return in->ReadVarint64(&number);
      case kFixed64:
        total_ += kNumberBytes;
        return in->Skip(8);
      case kFixed32:
        total_ += kNumberBytes;
        return in->Skip(4);
      case kLengthDelimited:
        return CountBytes(field, depth, in);
      default:  // groups, which ONNX does not have
        return false;
    }
  }

  bool CountBytes(const FieldDescriptor* field, int depth,
                  CodedInputStream* in) {
    int length = 0;
    if (!in->ReadVarintSizeAsInt(&length) || length < 0) return false;
    if (field == nullptr) {
      total_ += kTextBytes;
      return in->Skip(length);
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        total_ += kTextBytes;
        return in->Skip(length);
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        total_ += kMessageBytes;
        if (depth == kMaxDepth) return false;
        const auto outer = in->PushLimit(length);
        const bool all = Count(*field->message_type(), depth + 1, in);
        in->PopLimit(outer);
        return all;
      }
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return in->Skip(length);  // as long in memory
      default:
        return CountVarints(length, in);
    }
  }

  // Small integers are longer in memory.
  bool CountVarints(int length, CodedInputStream* in) {
    total_ -= length;
    while (length > 0) {
      const void* data = nullptr;
      int size = 0;
      if (!in->GetDirectBufferPointer(&data, &size)) return false;
      size = std::min(size, length);
      const auto* bytes = static_cast<const std::uint8_t*>(data);
      total_ += kNumberBytes *
                std::count_if(bytes, bytes + size,
                              [](std::uint8_t byte) { return byte < 0x80; });
      length -= size;
      if (!in->Skip(size)) return false;
    }
    return true;
  }

  const std::int64_t max_;
  std::int64_t total_ = 0;
};

}  // namespace

std::int64_t OnnxOverhead(std::string_view bytes, std::int64_t max) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  Counter counter(max);
  (void)counter.Count(*onnx::ModelProto::descriptor(), 0, &in);
  return counter.total();
}

}  // namespace ucudnn
