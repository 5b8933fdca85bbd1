#include "solver/step_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/files/json_object.h"
#include "base/text.h"
#include "solver/memory/recorded_step_json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

constexpr Nanoseconds kMostStep = std::chrono::seconds(1000);

void ReadStep(JsonObject& object, MeasuredStep* step) {
  object.Read("batch", BatchSize(1), kMaxBatchSize, &step->batch);
  if (!object.Has("recorded")) {
    object.Read("time_us", Nanoseconds(0), kMostStep, &step->time);
    object.ReadOptional("peak_bytes", Bytes(0), Bytes(kMaxCount), &step->peak);
    return;
  }
  for (const char* key : {"time_us", "peak_bytes"}) {
    if (object.Has(key)) object.Refuse(key, "nothing beside \"recorded\"");
  }
  object.ReadInside(
      "recorded", [&](const Json& recorded, std::string at) -> Status {
        UCUDNN_ASSIGN_OR_RETURN(step->recorded,
                                RecordedStepFromJson(recorded, std::move(at)));
        return {};
      });
}

// `kind` is the last of `kinds`.
void ReadKind(JsonObject& object, const std::vector<StepKind>& kinds,
              StepKind* kind) {
  object.Read("device_kind", &kind->name);
  if (kind->name.empty() || kind->name.size() > kMaxStepTextBytes) {
    object.Refuse("device_kind",
                  fmt::format("a text of 1 to {} bytes", kMaxStepTextBytes));
  }
  if (std::ranges::count(kinds, kind->name, &StepKind::name) > 1) {
    object.Refuse("device_kind", "each kind once");
  }
  object.ReadOptional("least", BatchSize(1), kMaxBatchSize, &kind->least);
  object.ReadOptional("fingerprint", &kind->fingerprint);
  if (kind->fingerprint.size() > kMaxStepTextBytes) {
    object.Refuse("fingerprint",
                  fmt::format("a text of up to {} bytes", kMaxStepTextBytes));
  }
  object.ReadOptional("passes", 1, kMaxBatchSize.count(), &kind->passes);
  const auto read = [&](JsonObject& step, MeasuredStep* into) {
    if (kind->steps.size() > kMaxMeasuredSteps) {
      step.Refuse("", fmt::format("a list of up to {}", kMaxMeasuredSteps));
    }
    ReadStep(step, into);
  };
  object.ReadEach("steps", read, &kind->steps);
  if (object.status()) object.Require(CheckStepKind(*kind));
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
  object.ReadEach(
      "kinds",
      [&](JsonObject& inner, StepKind* kind) { ReadKind(inner, kinds, kind); },
      &kinds);
  UCUDNN_RETURN_IF_ERROR(object.status());
  if (kinds.empty() || kinds.size() > most_kinds) {
    return Fail(Code::kInvalidArgument,
                "kinds has {} entries; 1 to {} are accepted", kinds.size(),
                most_kinds);
  }
  return kinds;
}

}  // namespace ucudnn
