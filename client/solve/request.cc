#include "client/solve/request.h"

#include <fmt/ranges.h>

#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/service/time_limit.h"
#include "base/text.h"
#include "base/training/device_model.h"
#include "base/training/json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::json;
// Of a request; each costs up to a plan of each batch.
constexpr std::size_t kMaxJointGpus = 1024;

// Stores a field's value.
using Take = std::function<Status(const Json& value)>;

tl::unexpected<Error> Refuse(const Json& value, std::string_view accepted) {
  return Fail(
      Code::kInvalidArgument, "{}; {} is accepted",
      Excerpt(value.dump(-1, ' ', false, Json::error_handler_t::replace)),
      accepted);
}

Take Number(std::int64_t min, std::int64_t max, std::int64_t* number) {
  return [=](const Json& value) -> Status {
    if (value.is_number_integer() &&
        (!value.is_number_unsigned() ||
         value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max))) {
      *number = value.get<std::int64_t>();
      if (*number >= min && *number <= max) return {};
    }
    return Refuse(value, fmt::format("a whole number from {} to {}", min, max));
  };
}

// A number of images.
Take Count(BatchSize* batch) {
  return [=](const Json& value) -> Status {
    std::int64_t count = 0;
    UCUDNN_RETURN_IF_ERROR(Number(1, kMaxBatchSize.count(), &count)(value));
    *batch = BatchSize(count);
    return {};
  };
}

// A number of bytes, at least one.
Take Size(Bytes* bytes) {
  return [=](const Json& value) -> Status {
    std::int64_t count = 0;
    UCUDNN_RETURN_IF_ERROR(Number(1, Bytes::Max().count(), &count)(value));
    *bytes = Bytes(count);
    return {};
  };
}

Take Text(std::string* text) {
  return [=](const Json& value) -> Status {
    if (!value.is_string()) return Refuse(value, "a string");
    *text = value.get<std::string>();
    return {};
  };
}

Take Flag(bool* flag) {
  return [=](const Json& value) -> Status {
    if (!value.is_boolean()) return Refuse(value, "true or false");
    *flag = value.get<bool>();
    return {};
  };
}

Take Seconds(std::chrono::milliseconds* time) {
  return [=](const Json& value) -> Status {
    const double most =
        std::chrono::duration<double>(kMostAllocationTime).count();
    const double seconds = value.is_number() ? value.get<double>() : -1;
    if (!(seconds > 0 && seconds <= most)) {
      return Refuse(value, fmt::format("a number of seconds up to {}", most));
    }
    *time = RoundUpSeconds(seconds);
    return {};
  };
}

Take MaxError(double* error) {
  return [=](const Json& value) -> Status {
    *error = value.is_number() ? value.get<double>() : -1;
    if (*error > 0 && *error < 1) return {};
    return Refuse(value, "a number above 0 and below 1");
  };
}

// A text that `parse` understands.
template <class T>
Take Parsed(Result<T> (*parse)(std::string_view), T* parsed) {
  return [=](const Json& value) -> Status {
    std::string text;
    UCUDNN_RETURN_IF_ERROR(Text(&text)(value));
    UCUDNN_ASSIGN_OR_RETURN(*parsed, parse(text));
    return {};
  };
}

// One of the names; stores its value.
template <class T>
Take OneOf(std::map<std::string, T> names, T* chosen) {
  return [names = std::move(names), chosen](const Json& value) -> Status {
    const auto found =
        value.is_string() ? names.find(value.get<std::string>()) : names.end();
    if (found == names.end()) {
      std::string accepted;
      for (const auto& [name, meaning] : names) {
        accepted += (accepted.empty() ? "\"" : " or \"") + name + '"';
      }
      return Refuse(value, accepted);
    }
    *chosen = found->second;
    return {};
  };
}

// A preset's name, or an object with a device model's fields.
Take Device(DeviceModel* device) {
  return [=](const Json& value) -> Status {
    if (value.is_object()) {
      UCUDNN_ASSIGN_OR_RETURN(*device, DeviceModelOf(value));
      return {};
    }
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    const Result<DeviceModel> preset = DeviceModelPreset(name);
    if (!preset) {
      return Refuse(value, fmt::format("{} or an object",
                                       fmt::join(DeviceModelPresets(), ", ")));
    }
    *device = *preset;
    return {};
  };
}

// An array of texts, each the shape of an input.
Take Shapes(InputShapes* shapes) {
  return [=](const Json& value) -> Status {
    if (!value.is_array()) return Refuse(value, "an array of strings");
    for (const Json& element : value) {
      UCUDNN_RETURN_IF_ERROR(
          Parsed(&ParseInputShape, &shapes->emplace_back())(element));
    }
    return {};
  };
}

using Fields = std::map<std::string, Take>;

// Stores the object's fields with `known`; those in `required` must be present.
// `where` is what errors call the object.
Status ReadObject(const Json& json, const std::string& where,
                  const Fields& known,
                  const std::vector<std::string>& required) {
  for (const auto& [name, value] : json.items()) {
    const auto field = known.find(name);
    if (field == known.end()) {
      std::string names;
      for (const auto& [key, take] : known) {
        names += (names.empty() ? "" : ", ") + key;
      }
      return Fail(Code::kInvalidArgument,
                  "{}: unknown field '{}'; accepted: {}", where, Excerpt(name),
                  names);
    }
    const Status taken = field->second(value);
    if (!taken) return Within(where + ": " + name, taken.error());
  }
  for (const std::string& name : required) {
    if (!json.contains(name)) {
      return Fail(Code::kInvalidArgument, "{}: {} is missing", where, name);
    }
  }
  return {};
}

Status ReadFields(std::string_view text, const Fields& known,
                  const std::vector<std::string>& required) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return Fail(Code::kInvalidArgument,
                "request: '{}'; a JSON object is expected", Excerpt(text));
  }
  return ReadObject(json, "request", known, required);
}

// Those of all requests for divisions.
const std::vector<std::string> kDivisionRequired = {"batch",
                                                    "workspace_limit_bytes"};
Fields DivisionFields(DivisionRequest* request) {
  ProfileFilter& filter = request->filter;
  const Take policy = [request](const Json& value) -> Status {
    std::string name;
    UCUDNN_RETURN_IF_ERROR(Text(&name)(value));
    UCUDNN_ASSIGN_OR_RETURN(request->wr.policy, ParseBatchPolicy(name));
    return {};
  };
  const Take limit = [request](const Json& value) -> Status {
    std::int64_t bytes = 0;
    UCUDNN_RETURN_IF_ERROR(Number(0, Bytes::Max().count(), &bytes)(value));
    request->wr.workspace_limit = Bytes(bytes);
    return {};
  };
  return {{"batch", Count(&request->wr.batch)},
          {"workspace_limit_bytes", limit},
          {"batch_policy", policy},
          {"device", Text(&filter.device)},
          {"network", Text(&filter.network)},
          {"layer", Text(&filter.layer)},
          {"op", Text(&filter.op)},
          {"precision", Text(&filter.precision)},
          {"layout", Text(&filter.layout)},
          {"max_error", MaxError(&filter.max_error)}};
}

// Those of all requests for memory plans.
Fields MemoryFields(MemoryProblem* problem) {
  return {{"batch", Count(&problem->batch)},
          {"precision", Parsed(&ParsePrecision, &problem->precision)},
          {"policy", Text(&problem->policy)},
          {"allocator", OneOf({{"policy", MemoryAllocator::kPolicy},
                               {"static", MemoryAllocator::kStatic}},
                              &problem->request.allocator)},
          {"recompute", Flag(&problem->request.recompute)},
          {"offload_weights", Flag(&problem->request.offload_weights)},
          {"fuse", OneOf({{"none", Fusion::kNone}, {"paper", Fusion::kPaper}},
                         &problem->fusion)},
          {"split", Text(&problem->split)},
          {"time_limit_s", Seconds(&problem->time_limit)},
          {"network_name", Text(&problem->network_name)},
          {"input_shapes", Shapes(&problem->shapes)},
          {"profile_network", Text(&problem->rows.network)},
          {"device", Text(&problem->rows.device)},
          {"layout", Text(&problem->rows.layout)},
          {"max_error", MaxError(&problem->rows.max_error)}};
}

// An array of GPUs, each of which is an object.
Take Gpus(std::vector<JointMemoryGpu>* gpus) {
  return [=](const Json& value) -> Status {
    if (!value.is_array() || value.size() > kMaxJointGpus) {
      return Refuse(value,
                    fmt::format("an array of up to {} objects", kMaxJointGpus));
    }
    for (const Json& json : value) {
      const std::string where = fmt::format("[{}]", gpus->size());
      JointMemoryGpu& gpu = gpus->emplace_back();
      std::string profile;
      if (!json.is_object()) {
        return Within(where, Refuse(json, "an object").value());
      }
      UCUDNN_RETURN_IF_ERROR(ReadObject(json, where,
                                        {{"name", Text(&gpu.name)},
                                         {"device_model", Device(&gpu.device)},
                                         {"budget_bytes", Size(&gpu.budget)},
                                         {"profile", Text(&profile)}},
                                        {"device_model"}));
      if (gpu.name.empty()) gpu.name = gpu.device.name;
      if (json.contains("profile")) {
        gpu.profile = {std::move(profile), "the profile of " + gpu.name};
      }
    }
    return {};
  };
}

}  // namespace

Result<DivisionRequest> ParseDivisionRequest(std::string_view text) {
  DivisionRequest request;
  UCUDNN_RETURN_IF_ERROR(
      ReadFields(text, DivisionFields(&request), kDivisionRequired));
  return request;
}

Result<SharedArenaRequest> ParseSharedArenaRequest(std::string_view text) {
  SharedArenaRequest request;
  Fields fields = DivisionFields(&request.division);
  fields.emplace("network_name", Text(&request.network_name));
  fields.emplace("input_shapes", Shapes(&request.shapes));
  UCUDNN_RETURN_IF_ERROR(ReadFields(text, fields, kDivisionRequired));
  return request;
}

Result<AssignRequest> ParseAssignRequest(std::string_view text) {
  AssignRequest request;
  UCUDNN_RETURN_IF_ERROR(ReadFields(
      text, {{"batch", Count(&request.batch)}, {"model", Text(&request.model)}},
      {"batch"}));
  return request;
}

Result<AllocationRequest> ParseAllocationRequest(std::string_view text) {
  AllocationRequest request;
  const Take capacity = [&](const Json& value) -> Status {
    return Size(&request.options.capacity.emplace())(value);
  };
  UCUDNN_RETURN_IF_ERROR(
      ReadFields(text,
                 {{"capacity_bytes", capacity},
                  {"time_limit_s", Seconds(&request.time_limit)}},
                 {}));
  return request;
}

Result<MemoryProblem> ParseMemoryRequest(std::string_view text) {
  MemoryProblem problem;
  problem.option_prefix = "request: ";
  BatchSize sub_batch;
  std::int64_t gpus = 1;
  Fields fields = MemoryFields(&problem);
  fields.merge(Fields{{"device_model", Device(&problem.device)},
                      {"budget_bytes", Size(&problem.request.budget)},
                      {"sub_batch", Count(&sub_batch)},
                      {"gpus", Number(1, kMaxMemoryGpus, &gpus)}});
  UCUDNN_RETURN_IF_ERROR(ReadFields(text, fields, {"batch", "device_model"}));
  if (sub_batch > BatchSize(0)) problem.request.sub_batch = sub_batch;
  problem.request.gpus = static_cast<int>(gpus);
  return problem;
}

Result<JointMemoryRequest> ParseJointMemoryRequest(std::string_view text) {
  JointMemoryRequest request;
  request.problem.option_prefix = "request: ";
  Fields fields = MemoryFields(&request.problem);
  fields.merge(
      Fields{{"gpus", Gpus(&request.gpus)}, {"step", Count(&request.step)}});
  UCUDNN_RETURN_IF_ERROR(ReadFields(text, fields, {"batch", "gpus"}));
  return request;
}

}  // namespace ucudnn
