#include "base/plan_json.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

Json OptionalTime(const std::optional<Nanoseconds>& time) {
  return time ? Json(Microseconds(*time)) : Json(nullptr);
}

// How an error shows a value.
std::string Shown(const Json& value) {
  if (value.is_object() || value.is_array()) {
    return fmt::format("{} of {}", value.type_name(), value.size());
  }
  return Excerpt(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Reads the fields of one object; the first failure counts, and after it
// nothing more is read.
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string path)
      : object_(object), path_(std::move(path)) {
    if (!object_.is_object()) Refuse("", &object_, "an object");
  }

  bool ok() const { return status_.has_value(); }
  Status status() const { return status_; }

  void Read(const char* key, std::int64_t min, std::int64_t max,
            std::int64_t* value) {
    const Json* field = Find(key);
    if (!ok()) return;
    if (field != nullptr && field->is_number_integer() &&
        (!field->is_number_unsigned() ||
         field->get<std::uint64_t>() <=
             std::uint64_t{std::numeric_limits<std::int64_t>::max()})) {
      *value = field->get<std::int64_t>();
      if (*value >= min && *value <= max) return;
    }
    Refuse(key, field, fmt::format("a whole number from {} to {}", min, max));
  }

  void Read(const char* key, BatchSize* batch) {
    std::int64_t count = 0;
    Read(key, 1, kMaxBatchSize.count(), &count);
    *batch = BatchSize(count);
  }

  void Read(const char* key, Bytes* bytes) {
    std::int64_t count = 0;
    Read(key, 0, Bytes::Max().count(), &count);
    *bytes = Bytes(count);
  }

  void Read(const char* key, Nanoseconds* time) {
    const Json* field = Find(key);
    if (!ok()) return;
    if (field != nullptr && field->is_number()) {
      const Result<Nanoseconds> read = FromMicroseconds(field->get<double>());
      if (read) {
        *time = *read;
        return;
      }
    }
    Refuse(key, field, "a number of microseconds from 0 to 146 years");
  }

  void Read(const char* key, bool* value) {
    const Json* field = Find(key);
    if (!ok()) return;
    if (field == nullptr || !field->is_boolean()) {
      return Refuse(key, field, "true or false");
    }
    *value = field->get<bool>();
  }

  void Read(const char* key, std::string* text, bool may_be_empty = false) {
    const Json* field = Find(key);
    if (!ok()) return;
    if (field != nullptr && field->is_string()) {
      *text = field->get_ref<const std::string&>();
      if (IsPlainText(*text) && (may_be_empty || !text->empty())) return;
    }
    Refuse(key, field,
           may_be_empty ? "text without control characters"
                        : "text without control characters, not empty,");
  }

  // A text that `parse` understands.
  template <class T>
  void Read(const char* key, Result<T> (*parse)(std::string_view), T* value) {
    std::string text;
    Read(key, &text);
    if (!ok()) return;
    Result<T> parsed = parse(text);
    if (parsed) {
      *value = *std::move(parsed);
    } else {
      status_ = Within(Path(key), std::move(parsed).error());
    }
  }

  // Whether the field is there, and not null.
  bool Has(const char* key) { return ok() && Find(key) != nullptr; }

  template <class T>
  void ReadOptional(const char* key, std::optional<T>* value) {
    if (Has(key)) Read(key, &value->emplace());
  }

  // Each element of an array with `read(element, path)`.
  template <class Reader>
  void ReadEach(const char* key, Reader read) {
    const Json* field = Find(key);
    if (!ok()) return;
    if (field == nullptr || !field->is_array()) {
      return Refuse(key, field, "an array");
    }
    for (std::size_t i = 0; ok() && i < field->size(); ++i) {
      status_ = read((*field)[i], fmt::format("{}[{}]", Path(key), i));
    }
  }

 private:
  std::string Path(std::string_view key) const {
    if (key.empty()) return path_.empty() ? "the plan" : path_;
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }

  // Null where there is nothing.
  const Json* Find(const char* key) const {
    if (!ok()) return nullptr;
    const auto field = object_.find(key);
    return field == object_.end() || field->is_null() ? nullptr : &*field;
  }

  void Refuse(std::string_view key, const Json* value,
              std::string_view accepted) {
    status_ =
        Fail(Code::kInvalidArgument, "{} is {}; {} is accepted", Path(key),
             value == nullptr ? "missing" : Shown(*value), accepted);
  }

  const Json& object_;
  std::string path_;  // of the object; empty at the top
  Status status_;
};

Status ReadMicroBatch(const Json& json, std::string path, Precision precision,
                      MicroBatch* micro) {
  ObjectReader object(json, std::move(path));
  object.Read("batch", &micro->batch);
  object.Read("count", 1, kMaxBatchSize.count(), &micro->count);
  object.Read("algorithm", &micro->algorithm.name);
  object.Read("math", &micro->algorithm.math, /*may_be_empty=*/true);
  micro->algorithm.precision = precision;
  if (object.Has("precision")) {
    object.Read("precision", ParsePrecision, &micro->algorithm.precision);
  }
  object.Read("time_us", &micro->time);
  object.Read("workspace_bytes", &micro->workspace);
  return object.status();
}

Status ReadKernel(const Json& json, std::string path, KernelPlan* kernel) {
  ObjectReader object(json, std::move(path));
  object.Read("layer", &kernel->layer);
  object.Read("op", ParseConvOp, &kernel->op);
  object.Read("precision", ParsePrecision, &kernel->precision);
  if (object.Has("layout")) {
    object.Read("layout", ParseLayout, &kernel->layout);
  }
  if (object.Has("problem")) {
    object.Read("problem", ParseConvProblem, &kernel->problem.emplace());
  }
  object.Read("time_us", &kernel->time);
  object.ReadOptional("undivided_time_us", &kernel->undivided_time);
  object.Read("workspace_bytes", &kernel->workspace);
  object.ReadOptional("offset_bytes", &kernel->offset);
  object.ReadEach("micro_batches", [&](const Json& micro, std::string at) {
    return ReadMicroBatch(micro, std::move(at), kernel->precision,
                          &kernel->micro_batches.emplace_back());
  });
  return object.status();
}

Json ToJson(const KernelPlan& kernel) {
  Json json;
  json["layer"] = kernel.layer;
  json["op"] = Name(kernel.op);
  json["precision"] = Name(kernel.precision);
  json["layout"] = Name(kernel.layout);
  if (kernel.problem) json["problem"] = ToString(*kernel.problem);
  json["time_us"] = Microseconds(kernel.time);
  json["undivided_time_us"] = OptionalTime(kernel.undivided_time);
  json["workspace_bytes"] = kernel.workspace.count();
  if (kernel.offset) json["offset_bytes"] = kernel.offset->count();
  json["micro_batches"] = ucudnn::ToJson(kernel.micro_batches);
  return json;
}

}  // namespace

Json ToJson(const std::vector<MicroBatch>& micro_batches) {
  Json list = Json::array();
  for (const MicroBatch& micro : micro_batches) {
    Json json;
    json["batch"] = micro.batch.count();
    json["count"] = micro.count;
    json["algorithm"] = micro.algorithm.name;
    json["math"] = micro.algorithm.math;
    json["precision"] = Name(micro.algorithm.precision);
    json["time_us"] = Microseconds(micro.time);
    json["workspace_bytes"] = micro.workspace.count();
    list.push_back(std::move(json));
  }
  return list;
}

Json ToJson(const WorkspacePlan& plan) {
  Json json;
  json["batch"] = plan.batch.count();
  json["workspace_limit_bytes"] = plan.workspace_limit.count();
  json["total_time_us"] = Microseconds(plan.total_time);
  json["lower_bound_us"] = Microseconds(plan.lower_bound);
  json["optimal"] = plan.optimal;
  json["undivided_time_us"] = OptionalTime(plan.undivided_time);
  json["total_workspace_bytes"] = plan.total_workspace.count();
  Json kernels = Json::array();
  for (const KernelPlan& kernel : plan.kernels) {
    kernels.push_back(ToJson(kernel));
  }
  json["kernels"] = std::move(kernels);
  return json;
}

Result<WorkspacePlan> WorkspacePlanFromJson(const Json& json) {
  WorkspacePlan plan;
  ObjectReader object(json, "");
  object.Read("batch", &plan.batch);
  object.Read("workspace_limit_bytes", &plan.workspace_limit);
  object.Read("total_time_us", &plan.total_time);
  object.Read("lower_bound_us", &plan.lower_bound);
  object.Read("optimal", &plan.optimal);
  object.ReadOptional("undivided_time_us", &plan.undivided_time);
  object.Read("total_workspace_bytes", &plan.total_workspace);
  object.ReadEach("kernels", [&](const Json& kernel, std::string at) {
    return ReadKernel(kernel, std::move(at), &plan.kernels.emplace_back());
  });
  UCUDNN_RETURN_IF_ERROR(object.status());
  return plan;
}

Result<WorkspacePlan> ParseWorkspacePlan(std::string_view text,
                                         std::string_view source) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    return Fail(Code::kInvalidArgument, "{}: it is not JSON: {}", source,
                Excerpt(error.what(), 300));
  }
  Result<WorkspacePlan> plan = WorkspacePlanFromJson(json);
  if (!plan) return Within(source, std::move(plan).error());
  return plan;
}

}  // namespace ucudnn
