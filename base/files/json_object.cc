#include "base/files/json_object.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/limits.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

// How an error shows a value.
std::string Shown(const Json& value) {
  if (value.is_object() || value.is_array()) {
    return fmt::format("{} of {}", value.type_name(), value.size());
  }
  return Excerpt(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Reads a text as far as it nests no deeper than it may, and keeps nothing of
// it.
class DepthCheck final : public nlohmann::json_sax<Json> {
 public:
  bool exceeded() const { return depth_ > kMaxJsonDepth; }

  bool start_object(std::size_t /*size*/) override { return Enter(); }
  bool start_array(std::size_t /*size*/) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/,
                    const string_t& /*text*/) override {
    return true;
  }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool key(string_t& /*key*/) override { return true; }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return false;
  }

 private:
  bool Enter() { return ++depth_ <= kMaxJsonDepth; }
  bool Leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
};

bool IsWhole(const Json& value, std::int64_t min, std::int64_t max) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() >
          std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return false;
  }
  const auto number = value.get<std::int64_t>();
  return min <= number && number <= max;
}

}  // namespace

JsonObject::JsonObject(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (!object_.is_object()) Refuse("", "an object");
}

std::string JsonObject::Path(std::string_view key) const {
  if (key.empty()) return path_.empty() ? "the document" : path_;
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Json* JsonObject::Find(const char* key) {
  asked_.emplace_back(key);
  if (!status_) return nullptr;
  const auto field = object_.find(key);
  return field == object_.end() || field->is_null() ? nullptr : &*field;
}

void JsonObject::Refuse(const char* key, std::string_view accepted) {
  const Json* value = *key == '\0' ? &object_ : Find(key);
  if (status_) status_ = Refusal(Path(key), value, accepted);
}

void JsonObject::Require(Status status) {
  if (!status_ || status) return;
  status_ = path_.empty() ? status : Within(path_, std::move(status).error());
}

void JsonObject::RefuseOthers() {
  if (!object_.is_object()) return;
  std::ranges::sort(asked_);
  asked_.erase(std::unique(asked_.begin(), asked_.end()), asked_.end());
  for (const auto& [name, value] : object_.items()) {
    if (std::ranges::binary_search(asked_, name)) continue;
    status_ = {};
    return Require(Fail(Code::kInvalidArgument,
                        "unknown field '{}'; accepted: {}", Excerpt(name),
                        fmt::join(asked_, ", ")));
  }
}

tl::unexpected<Error> JsonObject::Refusal(std::string_view path,
                                          const Json* value,
                                          std::string_view accepted) {
  return Fail(Code::kInvalidArgument, "{} is {}; {} is accepted", path,
              value == nullptr ? "missing" : Shown(*value), accepted);
}

void JsonObject::Read(const char* key, std::int64_t* value) {
  const Json* field = Find(key);
  if (!status_) return;
  using Limits = std::numeric_limits<std::int64_t>;
  if (field == nullptr || !IsWhole(*field, Limits::min(), Limits::max())) {
    return Refuse(key, "a whole number of 64 bits");
  }
  *value = field->get<std::int64_t>();
}

void JsonObject::Read(const char* key, std::int64_t min, std::int64_t max,
                      std::int64_t* value) {
  const Json* field = Find(key);
  if (!status_) return;
  if (field == nullptr || !IsWhole(*field, min, max)) {
    return Refuse(key, fmt::format("a whole number from {} to {}", min, max));
  }
  *value = field->get<std::int64_t>();
}

void JsonObject::Read(const char* key, double* value) {
  const Json* field = Find(key);
  if (!status_) return;
  if (field == nullptr || !field->is_number()) {
    return Refuse(key, "a number");
  }
  *value = field->get<double>();
}

void JsonObject::Read(const char* key, double min, double max, double* value) {
  const Json* field = Find(key);
  if (!status_) return;
  if (field != nullptr && field->is_number()) {
    const auto number = field->get<double>();
    if (number >= min && number <= max) {
      *value = number;
      return;
    }
  }
  Refuse(key, fmt::format("a number from {:g} to {:g}", min, max));
}

void JsonObject::Read(const char* key, bool* value) {
  const Json* field = Find(key);
  if (!status_) return;
  if (field == nullptr || !field->is_boolean()) {
    return Refuse(key, "true or false");
  }
  *value = field->get<bool>();
}

void JsonObject::Read(const char* key, std::string* text) {
  const Json* field = Find(key);
  if (!status_) return;
  if (field == nullptr || !field->is_string()) {
    return Refuse(key, "text");
  }
  *text = field->get_ref<const std::string&>();
}

void JsonObject::Read(const char* key, std::vector<std::string>* texts) {
  ReadEach(key, [&](const Json& text, const std::string& at) -> Status {
    if (!text.is_string()) return Refusal(at, &text, "text");
    texts->push_back(text.get_ref<const std::string&>());
    return {};
  });
}

void JsonObject::Read(const char* key, std::vector<std::size_t>* indices) {
  // More than any list has entries.
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  ReadEach(key, [&](const Json& index, const std::string& at) -> Status {
    if (!IsWhole(index, 0, kMost)) {
      return Refusal(at, &index, "an index from 0 on");
    }
    indices->push_back(index.get<std::size_t>());
    return {};
  });
}

void JsonObject::Read(const char* key, BatchSize* batch) {
  std::int64_t count = 0;
  Read(key, &count);
  *batch = BatchSize(count);
}

void JsonObject::Read(const char* key, Bytes* bytes) {
  std::int64_t count = 0;
  Read(key, &count);
  *bytes = Bytes(count);
}

void JsonObject::Read(const char* key, Nanoseconds* time) {
  const Json* field = Find(key);
  if (!status_) return;
  if (field != nullptr && field->is_number()) {
    const Result<Nanoseconds> read = FromMicroseconds(field->get<double>());
    if (read) {
      *time = *read;
      return;
    }
  }
  Refuse(key, "a number of microseconds from 0 to 146 years");
}

void JsonObject::Read(const char* key, Nanoseconds min, Nanoseconds max,
                      Nanoseconds* time) {
  double us = 0;
  Read(key, Microseconds(min), Microseconds(max), &us);
  *time = Nanoseconds(std::llround(us * 1e3));
}

Result<Json> ParseJson(std::string_view text) {
  // nlohmann's parser with a callback would look at all elements of a list
  // after each of them.
  DepthCheck depth;
  Json::sax_parse(text.begin(), text.end(), &depth);
  if (depth.exceeded()) {
    return Fail(Code::kInvalidArgument,
                "it nests more than {} lists and objects", kMaxJsonDepth);
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string_view what = error.what();
    if (const auto end = what.find("] "); end != std::string_view::npos) {
      what.remove_prefix(end + 2);
    }
    return Fail(Code::kInvalidArgument, "not JSON: {}", Excerpt(what, 300));
  }
}

}  // namespace ucudnn
