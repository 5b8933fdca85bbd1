#include "proto/convert.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/other_tasks.h"
#include "base/text.h"
#include "base/training/json.h"
#include "proto/json.h"

namespace ucudnn {
namespace {

void SetSpatial(const Spatial& values, int dims,
                google::protobuf::RepeatedField<std::int64_t>* field) {
  for (int i = 3 - dims; i < 3; ++i) field->Add(values[std::size_t(i)]);
}

Status GetSpatial(std::string_view name,
                  const google::protobuf::RepeatedField<std::int64_t>& field,
                  int dims, Spatial* values) {
  if (field.size() != dims) {
    return Fail(Code::kInvalidArgument,
                "{} has {} numbers; 2 or 3 are accepted, as many as input has",
                name, field.size());
  }
  for (int i = 0; i < dims; ++i)
    (*values)[std::size_t(3 - dims + i)] = field[i];
  return {};
}

using google::protobuf::FieldDescriptor;

// The field of v1::Measurement that holds the number of PointNumbers() with
// this index.
const FieldDescriptor& NumberField(std::size_t index) {
  static const auto kFields = [] {
    std::vector<const FieldDescriptor*> fields;
    for (const PointNumber& number : PointNumbers()) {
      fields.push_back(
          v1::Measurement::descriptor()->FindFieldByNumber(number.field));
      UCUDNN_CHECK(fields.back() != nullptr &&
                   fields.back()->name() == number.name);
    }
    return fields;
  }();
  return *kFields[index];
}

}  // namespace

v1::Layer ToProto(const ConvLayer& layer) {
  v1::Layer message;
  const ConvGeometry& g = layer.geometry;
  message.set_name(layer.name);
  message.set_channels(g.channels);
  message.set_filters(g.filters);
  message.set_groups(g.groups);
  SetSpatial(g.input, g.spatial_dims, message.mutable_input());
  SetSpatial(g.filter, g.spatial_dims, message.mutable_filter());
  SetSpatial(g.padding, g.spatial_dims, message.mutable_padding());
  SetSpatial(g.stride, g.spatial_dims, message.mutable_stride());
  SetSpatial(g.dilation, g.spatial_dims, message.mutable_dilation());
  message.set_transposed(layer.transposed);
  message.set_needs_input_gradient(layer.needs_input_gradient);
  message.set_images(g.images);
  return message;
}

Result<ConvLayer> FromProto(const v1::Layer& message) {
  ConvLayer layer;
  ConvGeometry& g = layer.geometry;
  layer.name = message.name();
  g.channels = message.channels();
  g.filters = message.filters();
  g.groups = message.groups();
  g.images = message.images() == 0 ? 1 : message.images();
  g.spatial_dims = message.input_size();
  if (g.spatial_dims != 2 && g.spatial_dims != 3) {
    return Fail(Code::kInvalidArgument,
                "layer '{}': input has {} numbers; 2 or 3 are accepted",
                message.name(), message.input_size());
  }
  const int dims = g.spatial_dims;
  UCUDNN_RETURN_IF_ERROR(GetSpatial("input", message.input(), dims, &g.input));
  UCUDNN_RETURN_IF_ERROR(
      GetSpatial("filter", message.filter(), dims, &g.filter));
  UCUDNN_RETURN_IF_ERROR(
      GetSpatial("padding", message.padding(), dims, &g.padding));
  UCUDNN_RETURN_IF_ERROR(
      GetSpatial("stride", message.stride(), dims, &g.stride));
  UCUDNN_RETURN_IF_ERROR(
      GetSpatial("dilation", message.dilation(), dims, &g.dilation));
  if (Status valid = Validate(g); !valid) {
    return Within(fmt::format("layer '{}'", layer.name), valid.error());
  }
  layer.transposed = message.transposed();
  layer.needs_input_gradient = message.needs_input_gradient();
  return layer;
}

Result<Network> FromProto(const v1::Network& message) {
  Network network;
  network.name = message.name();
  for (const v1::Layer& layer : message.layers()) {
    UCUDNN_ASSIGN_OR_RETURN(ConvLayer l, FromProto(layer));
    network.layers.push_back(std::move(l));
  }
  return network;
}

v1::DeviceKind ToProto(const DeviceKind& kind) {
  v1::DeviceKind message;
  message.set_model(kind.model);
  message.set_units(kind.units);
  message.set_memory_bytes(kind.memory.count());
  message.set_library(kind.library);
  return message;
}

DeviceKind FromProto(const v1::DeviceKind& message) {
  return {message.model(), message.units(), Bytes(message.memory_bytes()),
          message.library()};
}

v1::DeviceClocks ToProto(const DeviceClocks& clocks) {
  v1::DeviceClocks message;
  message.set_sm_mhz(clocks.sm_mhz);
  message.set_memory_mhz(clocks.memory_mhz);
  message.set_throttle(clocks.throttle);
  return message;
}

DeviceClocks FromProto(const v1::DeviceClocks& message) {
  return {message.sm_mhz(), message.memory_mhz(), message.throttle()};
}

v1::Measurement ToProto(const MeasuredPoint& point) {
  v1::Measurement message;
  message.set_batch(point.batch.count());
  message.set_algorithm(point.algorithm.name);
  message.set_math(point.algorithm.math);
  message.set_precision(std::string(Name(point.algorithm.precision)));
  message.set_workspace_bytes(point.workspace.count());
  const auto& reflection = *message.GetReflection();
  for (std::size_t i = 0; i < PointNumbers().size(); ++i) {
    const auto& field = NumberField(i);
    const std::int64_t value = PointNumbers()[i].get(point);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      reflection.SetInt32(&message, &field, static_cast<std::int32_t>(value));
    } else {
      reflection.SetInt64(&message, &field, value);
    }
  }
  return message;
}

v1::Measurement ToProto(const MeasuredPoint& point, const PointOrigin& origin) {
  v1::Measurement message = ToProto(point);
  message.set_device(origin.device);
  message.set_driver(origin.driver);
  message.set_measured_ms(origin.measured_ms);
  *message.mutable_clocks() = ToProto(origin.clocks);
  return message;
}

Result<MeasuredPoint> FromProto(const v1::Measurement& message) {
  UCUDNN_ASSIGN_OR_RETURN(
      MeasuredPoint point,
      MakePoint(message.batch(), message.algorithm(), message.math(),
                message.precision(), message.workspace_bytes()));
  const auto& reflection = *message.GetReflection();
  for (std::size_t i = 0; i < PointNumbers().size(); ++i) {
    const auto& field = NumberField(i);
    const std::int64_t value =
        field.cpp_type() == FieldDescriptor::CPPTYPE_INT32
            ? std::int64_t{reflection.GetInt32(message, &field)}
            : reflection.GetInt64(message, &field);
    UCUDNN_RETURN_IF_ERROR(SetNumber(PointNumbers()[i], value, &point));
  }
  return point;
}

PointOrigin OriginOf(const v1::Measurement& message) {
  return {.device = message.device(),
          .driver = message.driver(),
          .measured_ms = message.measured_ms(),
          .clocks = FromProto(message.clocks())};
}

std::vector<v1::Profile> ToProto(const Profile& profile) {
  std::vector<v1::Profile> messages;
  const auto add = [&](const KernelProfile& kernel, std::string text) {
    auto message =
        std::ranges::find(messages, kernel.id.device, &v1::Profile::id);
    if (message == messages.end()) {
      message = messages.emplace(messages.end());
      message->set_id(kernel.id.device);
    }
    v1::ProblemProfile& problem = *message->add_problems();
    problem.set_problem(std::move(text));
    for (std::size_t i = 0; i < kernel.points.size(); ++i) {
      *problem.add_measurements() =
          kernel.origins.empty() ? ToProto(kernel.points[i])
                                 : ToProto(kernel.points[i], kernel.origins[i]);
    }
    for (const auto& [batch, complete] : kernel.complete) {
      v1::CompleteBatch& c = *problem.add_complete();
      c.set_batch(batch.count());
      c.set_max_workspace_bytes(complete.max_workspace.count());
      c.set_driver(complete.driver);
    }
  };
  std::set<std::pair<std::string, ConvProblem>> done;
  for (const KernelProfile& kernel : profile.kernels) {
    if (!kernel.problem) continue;
    if (!done.emplace(kernel.id.device, *kernel.problem).second) continue;
    add(kernel, ToString(*kernel.problem));
  }
  for (const KernelProfile& other : profile.others) add(other, other.id.layer);
  return messages;
}

Result<Profile> FromProto(const v1::Profile& message) {
  Profile profile;
  for (const v1::ProblemProfile& of_problem : message.problems()) {
    const bool tasks = IsOtherTasks(of_problem.problem());
    KernelProfile& kernel =
        (tasks ? profile.others : profile.kernels).emplace_back();
    kernel.id.device = message.id();
    kernel.id.layer = of_problem.problem();
    if (tasks) {
      UCUDNN_ASSIGN_OR_RETURN(const OtherTasks other,
                              ParseOtherTasks(of_problem.problem()));
      kernel.id.network = other.network;
      kernel.id.precision = other.precision;
    } else {
      UCUDNN_ASSIGN_OR_RETURN(kernel.problem,
                              ParseConvProblem(of_problem.problem()));
      kernel.id.network = "measured";
      kernel.id.op = kernel.problem->op;
      kernel.id.precision = kernel.problem->precision;
      kernel.id.layout = kernel.problem->layout;
    }
    for (const v1::Measurement& measurement : of_problem.measurements()) {
      UCUDNN_ASSIGN_OR_RETURN(MeasuredPoint point, FromProto(measurement));
      kernel.points.push_back(std::move(point));
      kernel.origins.push_back(OriginOf(measurement));
    }
    for (const v1::CompleteBatch& complete : of_problem.complete()) {
      kernel.complete[BatchSize(complete.batch())] = {
          Bytes(complete.max_workspace_bytes()), complete.driver()};
    }
  }
  return profile;
}

v1::DeviceModel ToProto(const DeviceModel& model) {
  v1::DeviceModel message;
  const Status filled = FromJson(ToJson(model), &message);
  UCUDNN_CHECK(filled);
  return message;
}

Result<DeviceModel> FromProto(const v1::DeviceModel& message) {
  return DeviceModelOf(ToJson(message));
}

}  // namespace ucudnn
