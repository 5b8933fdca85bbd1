#include "client/dropin/ask/problem_profile.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/files/json_object.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

// Older coordinators lack numbers besides the time.
Result<MeasuredPoint> PointFrom(const Json& json) {
  JsonObject object(json, "");
  std::int64_t batch = 0;
  std::int64_t workspace = 0;
  std::string algorithm;
  std::string math;
  std::string precision;
  object.Read("batch", &batch);
  object.Read("algorithm", &algorithm);
  object.Read("math", &math);
  object.Read("precision", &precision);
  object.Read("workspace_bytes", &workspace);
  UCUDNN_RETURN_IF_ERROR(object.status());
  if (!object.Has("time_us")) {
    return JsonObject::Refusal("time_us", nullptr, "a number of microseconds");
  }
  UCUDNN_ASSIGN_OR_RETURN(MeasuredPoint point, MakePoint(batch, algorithm, math,
                                                         precision, workspace));
  for (const PointNumber& number : PointNumbers()) {
    std::string name(number.name);
    std::int64_t value = number.get(point);
    if (number.is_time()) {
      name.replace(name.size() - 2, 2, "us");
      Nanoseconds time{value};
      object.ReadOptional(name.c_str(), &time);
      value = time.count();
    } else {
      object.ReadOptional(name.c_str(), &value);
    }
    UCUDNN_RETURN_IF_ERROR(object.status());
    UCUDNN_RETURN_IF_ERROR(SetNumber(number, value, &point));
  }
  return point;
}

Status AddComplete(const Json& json, const std::string& path,
                   std::map<BatchSize, Bytes>* complete) {
  JsonObject object(json, path);
  BatchSize batch;
  Bytes workspace;
  object.Read("batch", BatchSize(1), kMaxBatchSize, &batch);
  object.Read("max_workspace_bytes", Bytes(0), Bytes(kMaxCount), &workspace);
  UCUDNN_RETURN_IF_ERROR(object.status());
  Bytes& most = (*complete)[batch];
  most = std::max(most, workspace);
  return {};
}

}  // namespace

Result<KnownElsewhere> ParseProblemProfile(std::string_view text) {
  UCUDNN_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  JsonObject object(json, "");
  KnownElsewhere known;
  object.ReadEach("measurements",
                  [&](const Json& row, const std::string& path) -> Status {
                    auto point = PointFrom(row);
                    if (!point) return Within(path, std::move(point).error());
                    known.points.push_back(*std::move(point));
                    return {};
                  });
  object.ReadEach("complete", [&](const Json& row, const std::string& path) {
    return AddComplete(row, path, &known.complete);
  });
  UCUDNN_RETURN_IF_ERROR(object.status());
  return known;
}

}  // namespace ucudnn
