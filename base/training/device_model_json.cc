#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "base/training/json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTera = 1e6;  // per microsecond
constexpr double kGiga = 1e3;

std::string Shown(const Json& value) {
  return Excerpt(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Reads the fields of one object; keeps the first failure.
class FieldReader {
 public:
  FieldReader(const Json& object, std::string_view source)
      : object_(object), source_(source) {}

  Status status() const { return status_; }

  // In [min, max].
  void Number(const char* key, double min, double max, bool required,
              double* value) {
    const Json* field = Find(key, required);
    if (field == nullptr) return;
    if (field->is_number()) {
      *value = field->get<double>();
      if (std::isfinite(*value) && *value >= min && *value <= max) return;
    }
    Refuse(key, *field, fmt::format("a number from {:g} to {:g}", min, max));
  }

  void Text(const char* key, std::string* value) {
    const Json* field = Find(key, true);
    if (field == nullptr) return;
    if (field->is_string()) {
      *value = field->get<std::string>();
      if (!value->empty() && IsPlainText(*value)) return;
    }
    Refuse(key, *field, "a name");
  }

  void Flag(const char* key, bool* value) {
    const Json* field = Find(key, false);
    if (field == nullptr) return;
    if (field->is_boolean()) {
      *value = field->get<bool>();
      return;
    }
    Refuse(key, *field, "true or false");
  }

  const Json* Find(const char* key, bool required) {
    if (!status_) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (required) {
      status_ = Fail(Code::kInvalidArgument, "{}: the field '{}' is missing",
                     source_, key);
    }
    return nullptr;
  }

  void Refuse(const char* key, const Json& value, std::string_view accepted) {
    status_ = Fail(Code::kInvalidArgument, "{}: '{}' is {}; {} is accepted",
                   source_, key, Shown(value), accepted);
  }

 private:
  const Json& object_;
  std::string source_;
  Status status_;
};

Status CheckFields(const Json& json, std::string_view source) {
  static const std::set<std::string> kKnown = {
      "name",      "memory_bytes",       "arithmetic_tflops", "memory_gb_per_s",
      "launch_us", "d2h_gb_per_s",       "h2d_gb_per_s",      "algorithms",
      "duplex",    "transfer_latency_us"};
  for (const auto& [key, value] : json.items()) {
    if (kKnown.count(key) > 0) continue;
    return Fail(Code::kInvalidArgument, "{}: a device model has no field '{}'",
                source, Excerpt(key));
  }
  return {};
}

}  // namespace

Json ToJson(const DeviceModel& model) {
  Json json = {{"name", model.name},
               {"memory_bytes", model.memory.count()},
               {"arithmetic_tflops",
                {{"FP32", model.fp32_rate / kTera},
                 {"TF32", model.tf32_rate / kTera},
                 {"half", model.half_rate / kTera}}},
               {"memory_gb_per_s", model.memory_rate / kGiga},
               {"launch_us", Microseconds(model.launch)},
               {"d2h_gb_per_s", model.d2h_rate / kGiga},
               {"h2d_gb_per_s", model.h2d_rate / kGiga},
               {"transfer_latency_us", Microseconds(model.transfer_latency)},
               {"duplex", model.duplex}};
  for (const ModelledAlgorithm& algorithm : model.algorithms) {
    json["algorithms"].push_back(
        {{"name", algorithm.name}, {"speedup", algorithm.speedup}});
  }
  return json;
}

Result<DeviceModel> ParseDeviceModel(std::string_view text,
                                     std::string_view source) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return Fail(Code::kInvalidArgument, "{}: it is not a JSON object", source);
  }
  UCUDNN_RETURN_IF_ERROR(CheckFields(json, source));
  DeviceModel model;
  FieldReader fields(json, source);
  fields.Text("name", &model.name);
  double memory = 0;
  fields.Number("memory_bytes", 0, std::ldexp(1.0, 60), true, &memory);
  model.memory = Bytes(static_cast<std::int64_t>(memory));
  if (const Json* rates = fields.Find("arithmetic_tflops", true)) {
    if (rates->is_object()) {
      FieldReader by_precision(*rates,
                               std::string(source) + ": 'arithmetic_tflops'");
      by_precision.Number("FP32", 1e-6, 1e9, true, &model.fp32_rate);
      model.tf32_rate = model.half_rate = model.fp32_rate;
      by_precision.Number("TF32", 1e-6, 1e9, false, &model.tf32_rate);
      by_precision.Number("half", 1e-6, 1e9, false, &model.half_rate);
      UCUDNN_RETURN_IF_ERROR(by_precision.status());
    } else {
      fields.Number("arithmetic_tflops", 1e-6, 1e9, true, &model.fp32_rate);
      model.tf32_rate = model.half_rate = model.fp32_rate;
    }
  }
  model.fp32_rate *= kTera;
  model.tf32_rate *= kTera;
  model.half_rate *= kTera;
  fields.Number("memory_gb_per_s", 1e-3, 1e9, true, &model.memory_rate);
  fields.Number("d2h_gb_per_s", 1e-3, 1e9, true, &model.d2h_rate);
  fields.Number("h2d_gb_per_s", 1e-3, 1e9, true, &model.h2d_rate);
  model.memory_rate *= kGiga;
  model.d2h_rate *= kGiga;
  model.h2d_rate *= kGiga;
  double launch = 0;
  double latency = 0;
  fields.Number("launch_us", 0, 1e9, false, &launch);
  fields.Number("transfer_latency_us", 0, 1e9, false, &latency);
  model.launch = Nanoseconds(std::llround(launch * 1e3));
  model.transfer_latency = Nanoseconds(std::llround(latency * 1e3));
  fields.Flag("duplex", &model.duplex);
  if (const Json* algorithms = fields.Find("algorithms", false)) {
    if (!algorithms->is_array()) {
      fields.Refuse("algorithms", *algorithms, "a list");
    } else {
      for (const Json& item : *algorithms) {
        if (!item.is_object()) {
          fields.Refuse("algorithms", item, "a list of objects");
          break;
        }
        ModelledAlgorithm algorithm;
        FieldReader own(item, std::string(source) + ": 'algorithms'");
        own.Text("name", &algorithm.name);
        own.Number("speedup", 1e-3, 1e3, true, &algorithm.speedup);
        UCUDNN_RETURN_IF_ERROR(own.status());
        model.algorithms.push_back(std::move(algorithm));
      }
    }
  }
  UCUDNN_RETURN_IF_ERROR(fields.status());
  if (Status status = Validate(model); !status) {
    return Within(source, std::move(status).error());
  }
  return model;
}

}  // namespace ucudnn
