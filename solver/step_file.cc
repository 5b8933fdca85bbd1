#include "solver/step_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/files/json_object.h"
#include "base/text.h"
#include "solver/memory/recorded_step_json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

// A step: 1000 seconds.
constexpr double kMostStepUs = 1e9;

Status ReadStep(const Json& json, std::string path,
                std::vector<MeasuredStep>* steps) {
  JsonObject object(json, path);
  MeasuredStep& step = steps->emplace_back();
  std::int64_t batch = 0;
  object.Read("batch", 1, kMaxBatchSize.count(), &batch);
  step.batch = BatchSize(batch);
  if (!object.Has("recorded")) {
    double us = 0;
    object.Read("time_us", 0, kMostStepUs, &us);
    step.time = Nanoseconds(std::llround(us * 1e3));
    std::int64_t peak = 0;
    if (object.Has("peak_bytes")) {
      object.Read("peak_bytes", 0, kMaxCount, &peak);
    }
    step.peak = Bytes(peak);
    return object.status();
  }
  object.ReadInside("recorded", [&](const Json& recorded, std::string at) {
    for (const char* key : {"time_us", "peak_bytes"}) {
      if (!recorded.is_object() || !json.contains(key)) continue;
      return Status(JsonObject::Refusal(path + "." + key, &json[key],
                                        "nothing beside \"recorded\""));
    }
    Result<RecordedStep> read = RecordedStepFromJson(recorded, std::move(at));
    if (!read) return Status(tl::unexpected<Error>(std::move(read).error()));
    step.recorded = *std::move(read);
    return Status();
  });
  return object.status();
}

Status ReadKind(const Json& json, std::string path,
                std::vector<StepKind>* kinds) {
  JsonObject object(json, path);
  StepKind kind;
  object.Read("device_kind", &kind.name);
  UCUDNN_RETURN_IF_ERROR(object.status());
  if (kind.name.empty() || kind.name.size() > kMaxStepTextBytes) {
    return JsonObject::Refusal(
        path + ".device_kind", &json["device_kind"],
        fmt::format("a text of 1 to {} bytes", kMaxStepTextBytes));
  }
  if (std::ranges::find(*kinds, kind.name, &StepKind::name) != kinds->end()) {
    return JsonObject::Refusal(path + ".device_kind", &json["device_kind"],
                               "each kind once");
  }
  if (object.Has("least")) {
    std::int64_t least = 0;
    object.Read("least", 1, kMaxBatchSize.count(), &least);
    kind.least = BatchSize(least);
  }
  object.ReadOptional("fingerprint", &kind.fingerprint);
  if (kind.fingerprint.size() > kMaxStepTextBytes) {
    object.Refuse("fingerprint", &json["fingerprint"],
                  fmt::format("a text of up to {} bytes", kMaxStepTextBytes));
  }
  if (object.Has("passes")) {
    object.Read("passes", 1, kMaxBatchSize.count(), &kind.passes);
  }
  object.ReadEach("steps", [&](const Json& step, std::string at) -> Status {
    if (kind.steps.size() == kMaxMeasuredSteps) {
      return Fail(Code::kInvalidArgument, "{}: up to {} are accepted", at,
                  kMaxMeasuredSteps);
    }
    return ReadStep(step, std::move(at), &kind.steps);
  });
  UCUDNN_RETURN_IF_ERROR(object.status());
  if (Status checked = CheckStepKind(kind); !checked) {
    return Within(path, std::move(checked).error());
  }
  kinds->push_back(std::move(kind));
  return {};
}

}  // namespace

Result<std::vector<StepKind>> ParseStep(std::string_view content,
                                        std::size_t most_kinds) {
  if (content.size() > kMaxStepBytes) {
    return Fail(Code::kInvalidArgument,
                "it has {} bytes; up to {} are accepted", content.size(),
                kMaxStepBytes);
  }
  UCUDNN_ASSIGN_OR_RETURN(const Json json, ParseJson(content));
  std::vector<StepKind> kinds;
  JsonObject object(json, "");
  object.ReadEach("kinds", [&](const Json& kind, std::string at) {
    return ReadKind(kind, std::move(at), &kinds);
  });
  UCUDNN_RETURN_IF_ERROR(object.status());
  if (kinds.empty() || kinds.size() > most_kinds) {
    return Fail(Code::kInvalidArgument,
                "kinds has {} entries; 1 to {} are accepted", kinds.size(),
                most_kinds);
  }
  return kinds;
}

}  // namespace ucudnn
