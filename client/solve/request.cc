#include "client/solve/request.h"

#include <fmt/ranges.h>

#include "base/files/json_object.h"
#include "base/service/time_limit.h"
#include "base/text.h"
#include "base/training/device_model.h"
#include "base/training/json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
// Of a request; each costs up to a plan of each batch.
constexpr std::size_t kMaxJointGpus = 1024;

// Reads what `read` asks of the request, which may hold nothing else.
template <class Read>
Status ReadRequest(std::string_view text, Read read) {
  const auto json = ParseJson(text);
  if (!json) return Within("request", json.error());
  JsonObject object(*json, "request");
  if (object.status()) read(object);
  object.RefuseOthers();
  return object.status();
}

Result<MemoryAllocator> ParseAllocator(std::string_view text) {
  if (text == "policy") return MemoryAllocator::kPolicy;
  if (text == "static") return MemoryAllocator::kStatic;
  return Fail(Code::kInvalidArgument,
              "'{}'; \"policy\" or \"static\" is accepted", Excerpt(text));
}

Result<Fusion> ParseFusion(std::string_view text) {
  if (text == "none") return Fusion::kNone;
  if (text == "paper") return Fusion::kPaper;
  return Fail(Code::kInvalidArgument, "'{}'; \"none\" or \"paper\" is accepted",
              Excerpt(text));
}

void ReadMaxError(JsonObject& object, double* error) {
  object.ReadOptional("max_error", error);
  if (object.Has("max_error") && !(*error > 0 && *error < 1)) {
    object.Refuse("max_error", "a number above 0 and below 1");
  }
}

// A preset's name, or an object with a device model's fields.
void ReadDevice(JsonObject& object, DeviceModel* device) {
  const auto read = [&](const Json& value, const std::string& path) -> Status {
    if (value.is_object()) {
      auto model = DeviceModelOf(value);
      if (!model) return Within(path, std::move(model).error());
      *device = *std::move(model);
      return {};
    }
    const auto preset =
        DeviceModelPreset(value.is_string() ? value.get<std::string>() : "");
    if (!preset) {
      return JsonObject::Refusal(
          path, &value,
          fmt::format("{} or an object",
                      fmt::join(DeviceModelPresets(), ", ")));
    }
    *device = *preset;
    return {};
  };
  object.ReadInside("device_model", read);
}

// An array of texts, each the shape of an input.
void ReadShapes(JsonObject& object, InputShapes* shapes) {
  std::vector<std::string> texts;
  object.ReadOptional("input_shapes", &texts);
  for (const std::string& text : texts) {
    const auto shape = ParseInputShape(text);
    if (!shape) return object.Require(Within("input_shapes", shape.error()));
    shapes->push_back(*shape);
  }
}

void ReadDivision(JsonObject& object, DivisionRequest* request) {
  ProfileFilter& filter = request->filter;
  object.Read("batch", BatchSize(1), kMaxBatchSize, &request->wr.batch);
  object.Read("workspace_limit_bytes", Bytes(0), Bytes::Max(),
              &request->wr.workspace_limit);
  object.ReadOptional("batch_policy", &ParseBatchPolicy, &request->wr.policy);
  object.ReadOptional("device", &filter.device);
  object.ReadOptional("network", &filter.network);
  object.ReadOptional("layer", &filter.layer);
  object.ReadOptional("op", &filter.op);
  object.ReadOptional("precision", &filter.precision);
  object.ReadOptional("layout", &filter.layout);
  ReadMaxError(object, &filter.max_error);
}

// What all requests for memory plans may hold.
void ReadMemory(JsonObject& object, MemoryProblem* problem) {
  problem->option_prefix = "request: ";
  object.Read("batch", BatchSize(1), kMaxBatchSize, &problem->batch);
  object.ReadOptional("precision", &ParsePrecision, &problem->precision);
  object.ReadOptional("policy", &problem->policy);
  object.ReadOptional("allocator", &ParseAllocator,
                      &problem->request.allocator);
  object.ReadOptional("recompute", &problem->request.recompute);
  object.ReadOptional("offload_weights", &problem->request.offload_weights);
  object.ReadOptional("fuse", &ParseFusion, &problem->fusion);
  object.ReadOptional("split", &problem->split);
  ReadTimeLimit(object, &problem->time_limit);
  object.ReadOptional("network_name", &problem->network_name);
  ReadShapes(object, &problem->shapes);
  object.ReadOptional("profile_network", &problem->rows.network);
  object.ReadOptional("device", &problem->rows.device);
  object.ReadOptional("layout", &problem->rows.layout);
  ReadMaxError(object, &problem->rows.max_error);
}

void ReadGpu(JsonObject& object, JointMemoryGpu* gpu) {
  object.ReadOptional("name", &gpu->name);
  ReadDevice(object, &gpu->device);
  object.ReadOptional("budget_bytes", Bytes(1), Bytes::Max(), &gpu->budget);
  if (gpu->name.empty()) gpu->name = gpu->device.name;
  if (object.Has("profile")) {
    gpu->profile = {"", "the profile of " + gpu->name};
    object.Read("profile", &gpu->profile->contents);
  }
  object.RefuseOthers();
}

}  // namespace

void ReadTimeLimit(JsonObject& object, std::chrono::milliseconds* limit) {
  double seconds = std::chrono::duration<double>(*limit).count();
  object.ReadOptional("time_limit_s", 0.001,
                      static_cast<double>(kMostAllocationTime.count()),
                      &seconds);
  *limit = RoundUpSeconds(seconds);
}

Result<DivisionRequest> ParseDivisionRequest(std::string_view text) {
  DivisionRequest request;
  UCUDNN_RETURN_IF_ERROR(ReadRequest(
      text, [&](JsonObject& object) { ReadDivision(object, &request); }));
  return request;
}

Result<SharedArenaRequest> ParseSharedArenaRequest(std::string_view text) {
  SharedArenaRequest request;
  UCUDNN_RETURN_IF_ERROR(ReadRequest(text, [&](JsonObject& object) {
    ReadDivision(object, &request.division);
    object.ReadOptional("network_name", &request.network_name);
    ReadShapes(object, &request.shapes);
  }));
  return request;
}

Result<AssignRequest> ParseAssignRequest(std::string_view text) {
  AssignRequest request;
  UCUDNN_RETURN_IF_ERROR(ReadRequest(text, [&](JsonObject& object) {
    object.Read("batch", BatchSize(1), kMaxBatchSize, &request.batch);
    object.ReadOptional("model", &request.model);
  }));
  return request;
}

Result<AllocationRequest> ParseAllocationRequest(std::string_view text) {
  AllocationRequest request;
  UCUDNN_RETURN_IF_ERROR(ReadRequest(text, [&](JsonObject& object) {
    if (object.Has("capacity_bytes")) {
      object.Read("capacity_bytes", Bytes(1), Bytes::Max(),
                  &request.options.capacity.emplace());
    }
    ReadTimeLimit(object, &request.time_limit);
  }));
  return request;
}

Result<MemoryProblem> ParseMemoryRequest(std::string_view text) {
  MemoryProblem problem;
  UCUDNN_RETURN_IF_ERROR(ReadRequest(text, [&](JsonObject& object) {
    ReadMemory(object, &problem);
    ReadDevice(object, &problem.device);
    object.ReadOptional("budget_bytes", Bytes(1), Bytes::Max(),
                        &problem.request.budget);
    if (object.Has("sub_batch")) {
      object.Read("sub_batch", BatchSize(1), kMaxBatchSize,
                  &problem.request.sub_batch.emplace());
    }
    std::int64_t gpus = 1;
    object.ReadOptional("gpus", 1, kMaxMemoryGpus, &gpus);
    problem.request.gpus = static_cast<int>(gpus);
  }));
  return problem;
}

Result<JointMemoryRequest> ParseJointMemoryRequest(std::string_view text) {
  JointMemoryRequest request;
  UCUDNN_RETURN_IF_ERROR(ReadRequest(text, [&](JsonObject& object) {
    ReadMemory(object, &request.problem);
    object.ReadEach("gpus", ReadGpu, &request.gpus);
    if (request.gpus.size() > kMaxJointGpus) {
      object.Refuse("gpus", fmt::format("up to {} of them", kMaxJointGpus));
    }
    object.ReadOptional("step", BatchSize(1), kMaxBatchSize, &request.step);
  }));
  return request;
}

}  // namespace ucudnn
