#ifndef UCUDNN_BASE_FILES_JSON_OBJECT_H_
#define UCUDNN_BASE_FILES_JSON_OBJECT_H_

// Reads JSON objects field by field, with errors that name the path.
//
//   void ReadRank(JsonObject& object, Rank* rank) {
//     object.Read("batch", &rank->batch);
//     object.ReadOptional("reason", &rank->reason);
//   }
//
//   JsonObject object(json, "");
//   object.ReadEach("ranks", ReadRank, &ranks);
//   return object.status();

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// The first failure counts: kInvalidArgument, naming the path of the field, the
// value and what is accepted. After it nothing more is read. A field that is
// null counts as missing; fields that are not asked for are ignored, unless
// RefuseOthers is called. Refers to the JSON, which must outlive it.
class JsonObject {
 public:
  using Json = nlohmann::ordered_json;

  // `path` is that of the object; empty at the top.
  JsonObject(const Json& object, std::string path);

  const Json& json() const { return object_; }
  const Status& status() const { return status_; }
  bool Has(const char* key) { return Find(key) != nullptr; }

  void Read(const char* key, std::int64_t* value);
  void Read(const char* key, std::int64_t min, std::int64_t max,
            std::int64_t* value);
  void Read(const char* key, double* value);
  void Read(const char* key, double min, double max, double* value);
  void Read(const char* key, bool* value);
  void Read(const char* key, std::string* text);
  void Read(const char* key, std::vector<std::string>* texts);
  void Read(const char* key, std::vector<std::size_t>* indices);
  void Read(const char* key, BatchSize* batch);
  void Read(const char* key, Bytes* bytes);
  void Read(const char* key, Nanoseconds* time);  // in microseconds
  void Read(const char* key, Nanoseconds min, Nanoseconds max,
            Nanoseconds* time);

  // A number of images or bytes.
  template <class Unit>
  void Read(const char* key, Unit min, Unit max, Unit* value) {
    std::int64_t count = 0;
    Read(key, min.count(), max.count(), &count);
    *value = Unit(count);
  }

  // A text that `parse` understands.
  template <class T>
  void Read(const char* key, Result<T> (*parse)(std::string_view), T* value) {
    std::string text;
    Read(key, &text);
    if (!status_) return;
    Result<T> parsed = parse(text);
    if (parsed) {
      *value = *std::move(parsed);
    } else {
      status_ = Within(Path(key), std::move(parsed).error());
    }
  }

  // If the field is missing, the value stays.
  template <class T>
  void ReadOptional(const char* key, T* value) {
    if (Has(key)) Read(key, value);
  }
  template <class T>
  void ReadOptional(const char* key, std::optional<T>* value) {
    if (Has(key)) Read(key, &value->emplace());
  }
  template <class T>
  void ReadOptional(const char* key, std::type_identity_t<T> min,
                    std::type_identity_t<T> max, T* value) {
    if (Has(key)) Read(key, min, max, value);
  }
  // The same of a text that is empty.
  template <class T, class Value>
  void ReadOptional(const char* key, Result<T> (*parse)(std::string_view),
                    Value* value) {
    std::string text;
    ReadOptional(key, &text);
    if (!status_ || text.empty()) return;
    T parsed{};
    Read(key, parse, &parsed);
    *value = std::move(parsed);
  }

  // An object, with `read(object, path)`, which returns a Status.
  template <class Reader>
  void ReadInside(const char* key, Reader read) {
    const Json* field = Find(key);
    if (!status_) return;
    if (field == nullptr) return Refuse(key, "an object");
    status_ = read(*field, Path(key));
  }
  // Each element of an array, likewise.
  template <class Reader>
  void ReadEach(const char* key, Reader read) {
    const Json* field = Find(key);
    if (!status_) return;
    if (field == nullptr || !field->is_array()) return Refuse(key, "an array");
    for (std::size_t i = 0; status_ && i < field->size(); ++i) {
      status_ = read((*field)[i], fmt::format("{}[{}]", Path(key), i));
    }
  }

  // The same, where `read(object, value)` reads the fields of a JsonObject.
  template <class Reader, class T>
  void ReadInside(const char* key, Reader read, T* value) {
    ReadInside(key, Fields(read, [&] { return value; }));
  }
  template <class Reader, class T>
  void ReadEach(const char* key, Reader read, std::vector<T>* values) {
    ReadEach(key, Fields(read, [&] { return &values->emplace_back(); }));
  }

  // Fails, naming the field and its value; this object itself if `key` is
  // empty.
  void Refuse(const char* key, std::string_view accepted);
  // The same of a value at `path`, for readers of elements. Null: missing.
  static tl::unexpected<Error> Refusal(std::string_view path, const Json* value,
                                       std::string_view accepted);
  // Fails if `status` is a failure, with the path of this object.
  void Require(Status status);
  // Fails, whatever failed before, if there is a field that was not asked for:
  // the name of one that is missing may be misspelt.
  void RefuseOthers();

 private:
  std::string Path(std::string_view key) const;
  // Null if the field is missing or something failed before.
  const Json* Find(const char* key);
  template <class Reader, class Next>
  static auto Fields(Reader& read, Next next) {
    return [&read, next](const Json& json, std::string path) {
      JsonObject object(json, std::move(path));
      if (object.status_) read(object, next());
      return object.status_;
    };
  }

  const Json& object_;
  std::string path_;
  Status status_;
  std::vector<std::string_view> asked_;
};

// `text` as JSON. kInvalidArgument: it is none, telling the line and column, or
// it nests more than kMaxJsonDepth values (base/limits.h).
Result<nlohmann::ordered_json> ParseJson(std::string_view text);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_FILES_JSON_OBJECT_H_
