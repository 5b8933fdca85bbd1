#include "client/dropin/wire/profile_wire.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ucudnn {
namespace {

enum WireType : unsigned { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

void AppendVarint(std::uint64_t value, std::string* text) {
  for (; value >= 128; value /= 128) {
    text->push_back(static_cast<char>(value % 128 + 128));
  }
  text->push_back(static_cast<char>(value));
}

void AppendText(unsigned number, std::string_view value, std::string* text) {
  AppendVarint(number << 3 | kBytes, text);
  AppendVarint(value.size(), text);
  text->append(value);
}

tl::unexpected<Error> Cut() {
  return Fail(Code::kInvalidArgument, "the message is cut short");
}

struct Field {
  unsigned number = 0;
  WireType type = kVarint;
  std::int64_t value = 0;  // of a varint
  std::string_view bytes;  // of what has a length
};

// The fields of a message, one after the other.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool AtEnd() const { return bytes_.empty(); }

  Result<Field> Next() {
    UCUDNN_ASSIGN_OR_RETURN(const std::uint64_t key, Varint());
    Field field;
    field.number = static_cast<unsigned>(key >> 3);
    field.type = static_cast<WireType>(key & 7);
    switch (field.type) {
      case kVarint: {
        UCUDNN_ASSIGN_OR_RETURN(const std::uint64_t value, Varint());
        field.value = static_cast<std::int64_t>(value);
        return field;
      }
      case kEight:
        UCUDNN_RETURN_IF_ERROR(Take(8));
        return field;
      case kFour:
        UCUDNN_RETURN_IF_ERROR(Take(4));
        return field;
      case kBytes: {
        UCUDNN_ASSIGN_OR_RETURN(const std::uint64_t length, Varint());
        UCUDNN_ASSIGN_OR_RETURN(field.bytes, Take(length));
        return field;
      }
    }
    return Fail(Code::kInvalidArgument, "a field of type {}", key & 7);
  }

 private:
  Result<std::string_view> Take(std::uint64_t length) {
    if (length > bytes_.size()) return Cut();
    const std::string_view taken = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
    return taken;
  }

  Result<std::uint64_t> Varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      UCUDNN_ASSIGN_OR_RETURN(const std::string_view byte, Take(1));
      const auto seven = static_cast<unsigned char>(byte[0]);
      value |= std::uint64_t{seven & 0x7fU} << shift;
      if (seven < 128) return value;
    }
    return Fail(Code::kInvalidArgument, "a number of more than 64 bits");
  }

  std::string_view bytes_;
};

Status InRange(const char* what, std::int64_t value, std::int64_t min,
               std::int64_t max) {
  if (value >= min && value <= max) return {};
  return Fail(Code::kInvalidArgument, "{} is {}", what, value);
}

Result<MeasuredPoint> DecodeMeasurement(std::string_view bytes) {
  std::int64_t batch = 0;
  std::int64_t workspace = 0;
  std::string_view algorithm;
  std::string_view math;
  std::string_view precision;
  std::vector<std::int64_t> numbers(PointNumbers().size());
  for (Reader reader(bytes); !reader.AtEnd();) {
    UCUDNN_ASSIGN_OR_RETURN(const Field field, reader.Next());
    const auto at = [&](int number, std::int64_t* to) {
      if (static_cast<int>(field.number) == number && field.type == kVarint) {
        *to = field.value;
      }
    };
    const auto text_at = [&](unsigned number, std::string_view* to) {
      if (field.number == number && field.type == kBytes) *to = field.bytes;
    };
    at(1, &batch);
    text_at(2, &algorithm);
    text_at(3, &math);
    text_at(4, &precision);
    at(5, &workspace);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      at(PointNumbers()[i].field, &numbers[i]);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(MeasuredPoint point, MakePoint(batch, algorithm, math,
                                                         precision, workspace));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(SetNumber(PointNumbers()[i], numbers[i], &point));
  }
  return point;
}

Status DecodeComplete(std::string_view bytes,
                      std::map<BatchSize, Bytes>* complete) {
  std::int64_t batch = 0;
  std::int64_t workspace = 0;
  for (Reader reader(bytes); !reader.AtEnd();) {
    UCUDNN_ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.type != kVarint) continue;
    if (field.number == 1) batch = field.value;
    if (field.number == 2) workspace = field.value;
  }
  UCUDNN_RETURN_IF_ERROR(InRange("batch", batch, 1, kMaxBatchSize.count()));
  UCUDNN_RETURN_IF_ERROR(
      InRange("max_workspace_bytes", workspace, 0, kMaxCount));
  Bytes& most = (*complete)[BatchSize(batch)];
  most = std::max(most, Bytes(workspace));
  return {};
}

}  // namespace

std::string EncodeProfileRequest(std::string_view kind,
                                 const ConvProblem& problem) {
  std::string text;
  AppendText(1, kind, &text);
  AppendText(2, ToString(problem), &text);
  return text;
}

Result<KnownElsewhere> DecodeProblemProfile(std::string_view bytes) {
  KnownElsewhere known;
  for (Reader reader(bytes); !reader.AtEnd();) {
    UCUDNN_ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.type != kBytes) continue;
    if (field.number == 2) {
      UCUDNN_ASSIGN_OR_RETURN(auto point, DecodeMeasurement(field.bytes));
      known.points.push_back(std::move(point));
    }
    if (field.number == 3) {
      UCUDNN_RETURN_IF_ERROR(DecodeComplete(field.bytes, &known.complete));
    }
  }
  return known;
}

}  // namespace ucudnn
