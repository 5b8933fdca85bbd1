#include "solver/memory/recorded_step_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/json_object.h"

namespace ucudnn {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Bytes a microsecond.
constexpr double kLeastLinkRate = 1e-3;
constexpr double kMostLinkRate = 1e9;
// A step: 100 seconds.
constexpr double kMostSegmentUs = 1e8;

void ReadDuration(const char* key, JsonObject* object, Nanoseconds* time) {
  double us = 0;
  object->Read(key, 0, kMostSegmentUs, &us);
  *time = Nanoseconds(std::llround(us * 1e3));
}

// Sums of sizes must not overflow.
void ReadSize(const char* key, JsonObject* object, Bytes* bytes) {
  std::int64_t count = 0;
  object->Read(key, 0, std::int64_t{1} << 46, &count);
  *bytes = Bytes(count);
}

Status ReadSegment(const OrderedJson& json, std::string path,
                   RecordedStep* step) {
  JsonObject object(json, std::move(path));
  RecordedSegment& segment = step->segments.emplace_back();
  ReadDuration("time_us", &object, &segment.time);
  ReadSize("bytes", &object, &segment.bytes);
  object.ReadOptional("backward", &segment.backward);
  return object.status();
}

Status ReadTensor(const OrderedJson& json, std::string path,
                  RecordedStep* step) {
  JsonObject object(json, std::move(path));
  RecordedTensor& tensor = step->tensors.emplace_back();
  constexpr auto kMost = static_cast<std::int64_t>(kMaxRecordedSegments);
  std::int64_t hook = 0;
  std::int64_t held = 0;
  ReadSize("bytes", &object, &tensor.bytes);
  object.Read("hook", 0, kMost, &hook);
  object.Read("held", 0, kMost, &held);
  object.Read("uses", &tensor.uses);
  tensor.hook = static_cast<std::size_t>(hook);
  tensor.held = static_cast<std::size_t>(held);
  if (!object.Has("recipe")) return object.status();
  object.ReadInside("recipe", [&](const OrderedJson& inner, std::string at) {
    JsonObject recipe(inner, std::move(at));
    RecordedRecipe& into = tensor.recipe.emplace();
    ReadDuration("time_us", &recipe, &into.time);
    ReadSize("bytes", &recipe, &into.bytes);
    recipe.Read("reads", &into.reads);
    return recipe.status();
  });
  return object.status();
}

Status ReadLink(const OrderedJson& json, std::string path, DeviceModel* link) {
  JsonObject object(json, std::move(path));
  object.Read("d2h_bytes_per_us", kLeastLinkRate, kMostLinkRate,
              &link->d2h_rate);
  object.Read("h2d_bytes_per_us", kLeastLinkRate, kMostLinkRate,
              &link->h2d_rate);
  if (object.Has("latency_us")) {
    ReadDuration("latency_us", &object, &link->transfer_latency);
  }
  object.ReadOptional("duplex", &link->duplex);
  return object.status();
}

}  // namespace

Result<RecordedStep> RecordedStepFromJson(const nlohmann::ordered_json& json,
                                          std::string path) {
  RecordedStep step;
  step.link.name = "recorded";
  JsonObject object(json, std::move(path));
  object.ReadEach("segments", [&](const OrderedJson& segment, std::string at) {
    return ReadSegment(segment, std::move(at), &step);
  });
  object.ReadEach("tensors", [&](const OrderedJson& tensor, std::string at) {
    return ReadTensor(tensor, std::move(at), &step);
  });
  object.ReadInside("link", [&](const OrderedJson& link, std::string at) {
    return ReadLink(link, std::move(at), &step.link);
  });
  UCUDNN_RETURN_IF_ERROR(object.status());
  return step;
}

}  // namespace ucudnn
