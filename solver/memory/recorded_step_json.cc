#include "solver/memory/recorded_step_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/json_object.h"

namespace ucudnn {
namespace {

// Bytes a microsecond.
constexpr double kLeastLinkRate = 1e-3;
constexpr double kMostLinkRate = 1e9;
constexpr Nanoseconds kMostSegment = std::chrono::seconds(100);

void ReadDuration(JsonObject& object, const char* key, Nanoseconds* time) {
  object.Read(key, Nanoseconds(0), kMostSegment, time);
}

// Sums of sizes must not overflow.
void ReadSize(JsonObject& object, Bytes* bytes) {
  object.Read("bytes", Bytes(0), Bytes(std::int64_t{1} << 46), bytes);
}

void ReadSegment(JsonObject& object, RecordedSegment* segment) {
  ReadDuration(object, "time_us", &segment->time);
  ReadSize(object, &segment->bytes);
  object.ReadOptional("backward", &segment->backward);
}

void ReadRecipe(JsonObject& object, RecordedRecipe* recipe) {
  ReadDuration(object, "time_us", &recipe->time);
  ReadSize(object, &recipe->bytes);
  object.Read("reads", &recipe->reads);
}

void ReadTensor(JsonObject& object, RecordedTensor* tensor) {
  constexpr auto kMost = static_cast<std::int64_t>(kMaxRecordedSegments);
  std::int64_t hook = 0;
  std::int64_t held = 0;
  ReadSize(object, &tensor->bytes);
  object.Read("hook", 0, kMost, &hook);
  object.Read("held", 0, kMost, &held);
  object.Read("uses", &tensor->uses);
  tensor->hook = static_cast<std::size_t>(hook);
  tensor->held = static_cast<std::size_t>(held);
  if (object.Has("recipe")) {
    object.ReadInside("recipe", ReadRecipe, &tensor->recipe.emplace());
  }
}

void ReadLink(JsonObject& object, DeviceModel* link) {
  object.Read("d2h_bytes_per_us", kLeastLinkRate, kMostLinkRate,
              &link->d2h_rate);
  object.Read("h2d_bytes_per_us", kLeastLinkRate, kMostLinkRate,
              &link->h2d_rate);
  if (object.Has("latency_us")) {
    ReadDuration(object, "latency_us", &link->transfer_latency);
  }
  object.ReadOptional("duplex", &link->duplex);
}

}  // namespace

Result<RecordedStep> RecordedStepFromJson(const nlohmann::ordered_json& json,
                                          std::string path) {
  RecordedStep step;
  step.link.name = "recorded";
  JsonObject object(json, std::move(path));
  object.ReadEach("segments", ReadSegment, &step.segments);
  object.ReadEach("tensors", ReadTensor, &step.tensors);
  object.ReadInside("link", ReadLink, &step.link);
  UCUDNN_RETURN_IF_ERROR(object.status());
  return step;
}

}  // namespace ucudnn
