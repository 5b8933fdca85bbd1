#include <cmath>
#include <nlohmann/json.hpp>
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

// One number for every precision, or {"FP32":...,"TF32":...,"half":...}.
void ReadArithmetic(JsonObject& fields, const char* key,
                    ArithmeticRates* rates) {
  constexpr double kMin = 1e-6;
  constexpr double kMax = 1e9;
  const auto read = [&](JsonObject& object, const char* fp32) {
    object.Read(fp32, kMin, kMax, &rates->fp32);
    rates->tf32 = rates->half = rates->fp32;
  };
  const auto found = fields.json().find(key);
  if (found != fields.json().end() && found->is_object()) {
    fields.ReadInside(
        key,
        [&](JsonObject& each, ArithmeticRates*) {
          read(each, "FP32");
          each.ReadOptional("TF32", kMin, kMax, &rates->tf32);
          each.ReadOptional("half", kMin, kMax, &rates->half);
        },
        rates);
  } else {
    read(fields, key);
  }
  for (double* rate : {&rates->fp32, &rates->tf32, &rates->half}) {
    *rate *= kTera;
  }
}

Json ToJson(const ArithmeticRates& rates) {
  return {{"FP32", rates.fp32 / kTera},
          {"TF32", rates.tf32 / kTera},
          {"half", rates.half / kTera}};
}

void ReadAlgorithm(JsonObject& fields, ModelledAlgorithm* algorithm) {
  fields.Read("name", ParsePlainName, &algorithm->name);
  fields.Read("speedup", 1e-3, 1e3, &algorithm->speedup);
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
  DeviceModel model;
  JsonObject fields(json, "");
  fields.Read("name", ParsePlainName, &model.name);
  double memory = 0;
  fields.Read("memory_bytes", 0, std::ldexp(1.0, 60), &memory);
  model.memory = Bytes(static_cast<std::int64_t>(memory));
  ReadArithmetic(fields, "arithmetic_tflops", &model.arithmetic);
  if (fields.Has("loaded_tflops")) {
    ReadArithmetic(fields, "loaded_tflops", &model.loaded);
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
    fields.ReadEach("algorithms", ReadAlgorithm, &model.algorithms);
  }
  fields.RefuseOthers();
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
