#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "base/files/json_object.h"
#include "base/names.h"
#include "base/text.h"
#include "base/training/json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTera = 1e6;  // per microsecond
constexpr double kGiga = 1e3;

Status CheckFields(const Json& json) {
  static const std::set<std::string> kKnown = {
      "name",          "memory_bytes",        "arithmetic_tflops",
      "loaded_tflops", "memory_gb_per_s",     "launch_us",
      "d2h_gb_per_s",  "h2d_gb_per_s",        "algorithms",
      "duplex",        "transfer_latency_us", "both_ways_gb_per_s"};
  for (const auto& [key, value] : json.items()) {
    if (kKnown.count(key) > 0) continue;
    return Fail(Code::kInvalidArgument, "a device model has no field '{}'",
                Excerpt(key));
  }
  return {};
}

// One number for every precision, or {"FP32":...,"TF32":...,"half":...}.
ArithmeticRates ReadArithmetic(const Json& json, const char* key,
                               JsonObject* fields) {
  constexpr double kMin = 1e-6;
  constexpr double kMax = 1e9;
  double fp32 = 0;
  double tf32 = 0;
  double half = 0;
  const auto found = json.find(key);
  if (found != json.end() && found->is_object()) {
    fields->ReadInside(key, [&](const Json& rates, std::string path) {
      JsonObject rate(rates, std::move(path));
      rate.Read("FP32", kMin, kMax, &fp32);
      tf32 = half = fp32;
      if (rate.Has("TF32")) rate.Read("TF32", kMin, kMax, &tf32);
      if (rate.Has("half")) rate.Read("half", kMin, kMax, &half);
      return rate.status();
    });
  } else {
    fields->Read(key, kMin, kMax, &fp32);
    tf32 = half = fp32;
  }
  return {.fp32 = fp32 * kTera, .tf32 = tf32 * kTera, .half = half * kTera};
}

Json ToJson(const ArithmeticRates& rates) {
  return {{"FP32", rates.fp32 / kTera},
          {"TF32", rates.tf32 / kTera},
          {"half", rates.half / kTera}};
}

Status ReadAlgorithm(const Json& json, std::string path,
                     ModelledAlgorithm* algorithm) {
  JsonObject fields(json, std::move(path));
  fields.Read("name", ParsePlainName, &algorithm->name);
  fields.Read("speedup", 1e-3, 1e3, &algorithm->speedup);
  return fields.status();
}

}  // namespace

Json ToJson(const DeviceModel& model) {
  Json json = {{"name", model.name},
               {"memory_bytes", model.memory.count()},
               {"arithmetic_tflops", ToJson(model.arithmetic)},
               {"memory_gb_per_s", model.memory_rate / kGiga},
               {"launch_us", Microseconds(model.launch)},
               {"d2h_gb_per_s", model.d2h_rate / kGiga},
               {"h2d_gb_per_s", model.h2d_rate / kGiga},
               {"transfer_latency_us", Microseconds(model.transfer_latency)},
               {"duplex", model.duplex}};
  if (model.loaded != ArithmeticRates()) {
    json["loaded_tflops"] = ToJson(model.loaded);
  }
  if (model.both_ways_rate != 0) {
    json["both_ways_gb_per_s"] = model.both_ways_rate / kGiga;
  }
  for (const ModelledAlgorithm& algorithm : model.algorithms) {
    json["algorithms"].push_back(
        {{"name", algorithm.name}, {"speedup", algorithm.speedup}});
  }
  return json;
}

Result<DeviceModel> DeviceModelOf(const Json& json) {
  UCUDNN_RETURN_IF_ERROR(CheckFields(json));
  DeviceModel model;
  JsonObject fields(json, "");
  fields.Read("name", ParsePlainName, &model.name);
  double memory = 0;
  fields.Read("memory_bytes", 0, std::ldexp(1.0, 60), &memory);
  model.memory = Bytes(static_cast<std::int64_t>(memory));
  model.arithmetic = ReadArithmetic(json, "arithmetic_tflops", &fields);
  if (fields.Has("loaded_tflops")) {
    model.loaded = ReadArithmetic(json, "loaded_tflops", &fields);
  }
  for (const auto& [key, rate] :
       {std::pair("memory_gb_per_s", &model.memory_rate),
        std::pair("d2h_gb_per_s", &model.d2h_rate),
        std::pair("h2d_gb_per_s", &model.h2d_rate)}) {
    fields.Read(key, 1e-3, 1e9, rate);
    *rate *= kGiga;
  }
  fields.ReadOptional("launch_us", &model.launch);
  fields.ReadOptional("transfer_latency_us", &model.transfer_latency);
  fields.ReadOptional("duplex", &model.duplex);
  if (fields.Has("both_ways_gb_per_s")) {
    fields.Read("both_ways_gb_per_s", 1e-3, 1e9, &model.both_ways_rate);
    model.both_ways_rate *= kGiga;
  }
  if (fields.Has("algorithms")) {
    fields.ReadEach("algorithms", [&](const Json& item, std::string path) {
      return ReadAlgorithm(item, std::move(path),
                           &model.algorithms.emplace_back());
    });
  }
  UCUDNN_RETURN_IF_ERROR(fields.status());
  UCUDNN_RETURN_IF_ERROR(Validate(model));
  return model;
}

Result<DeviceModel> ParseDeviceModel(std::string_view text,
                                     std::string_view source) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return Fail(Code::kInvalidArgument, "{}: it is not a JSON object", source);
  }
  Result<DeviceModel> model = DeviceModelOf(json);
  if (!model) return Within(source, std::move(model).error());
  return model;
}

}  // namespace ucudnn
