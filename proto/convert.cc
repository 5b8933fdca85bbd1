#include "proto/convert.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

// Of rates per microsecond.
constexpr double kTera = 1e6;
constexpr double kGiga = 1e3;

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

// The field of v1::Measurement that holds the number.
const FieldDescriptor& FieldOf(const PointNumber& number) {
  const FieldDescriptor* field =
      v1::Measurement::descriptor()->FindFieldByNumber(number.field);
  UCUDNN_CHECK(field != nullptr && field->name() == number.name);
  return *field;
}

Result<MicroBatch> FromProto(const v1::MicroBatch& message) {
  MicroBatch micro;
  micro.batch = BatchSize(message.batch());
  micro.count = message.count();
  micro.algorithm = {message.algorithm(), message.math(), Precision::kFp32};
  UCUDNN_ASSIGN_OR_RETURN(micro.algorithm.precision,
                          ParsePrecision(message.precision()));
  micro.time = Nanoseconds(message.time_ns());
  micro.workspace = Bytes(message.workspace_bytes());
  return micro;
}

Result<KernelPlan> FromProto(const v1::KernelPlan& message) {
  KernelPlan kernel;
  kernel.layer = message.layer();
  UCUDNN_ASSIGN_OR_RETURN(kernel.op, ParseConvOp(message.op()));
  UCUDNN_ASSIGN_OR_RETURN(kernel.precision,
                          ParsePrecision(message.precision()));
  UCUDNN_ASSIGN_OR_RETURN(kernel.layout, ParseLayout(message.layout()));
  if (!message.problem().empty()) {
    UCUDNN_ASSIGN_OR_RETURN(kernel.problem,
                            ParseConvProblem(message.problem()));
  }
  kernel.time = Nanoseconds(message.time_ns());
  if (message.has_undivided_time_ns()) {
    kernel.undivided_time = Nanoseconds(message.undivided_time_ns());
  }
  kernel.workspace = Bytes(message.workspace_bytes());
  if (message.has_offset_bytes()) {
    kernel.offset = Bytes(message.offset_bytes());
  }
  for (const v1::MicroBatch& m : message.micro_batches()) {
    UCUDNN_ASSIGN_OR_RETURN(MicroBatch micro, FromProto(m));
    kernel.micro_batches.push_back(std::move(micro));
  }
  return kernel;
}

// Not validated: the caller validates the whole plan.
Result<WorkspacePlan> ReadWorkspacePlan(const v1::WorkspacePlan& message) {
  WorkspacePlan plan;
  plan.batch = BatchSize(message.batch());
  plan.workspace_limit = Bytes(message.workspace_limit_bytes());
  plan.total_time = Nanoseconds(message.total_time_ns());
  plan.lower_bound = Nanoseconds(message.lower_bound_ns());
  plan.optimal = message.optimal();
  if (message.has_undivided_time_ns()) {
    plan.undivided_time = Nanoseconds(message.undivided_time_ns());
  }
  plan.total_workspace = Bytes(message.total_workspace_bytes());
  for (const v1::KernelPlan& k : message.kernels()) {
    Result<KernelPlan> kernel = FromProto(k);
    if (!kernel) {
      return Within(fmt::format("kernel {} {}", k.layer(), k.op()),
                    kernel.error());
    }
    plan.kernels.push_back(*std::move(kernel));
  }
  return plan;
}

// Parses the field; keeps its value if the text is empty.
template <class T>
Status Default(std::string_view field, const std::string& text,
               Result<T> (*parse)(std::string_view), T* value) {
  if (text.empty()) return {};
  Result<T> parsed = parse(text);
  if (!parsed) return Within(field, std::move(parsed).error());
  *value = *std::move(parsed);
  return {};
}

Result<JobRequest> ReadRequest(const v1::PlanRequest& message) {
  JobRequest request;
  request.network = message.network();
  request.batch = BatchSize(message.batch());
  request.device_kinds.assign(message.device_kinds().begin(),
                              message.device_kinds().end());
  request.workspace_limit = Bytes(message.workspace_limit_bytes());
  request.total_workspace = Bytes(message.total_workspace_bytes());
  UCUDNN_RETURN_IF_ERROR(Default("batch_policy", message.batch_policy(),
                                 ParseBatchPolicy, &request.policy));
  UCUDNN_RETURN_IF_ERROR(Default("precision", message.precision(),
                                 ParsePrecision, &request.precision));
  UCUDNN_RETURN_IF_ERROR(
      Default("layout", message.layout(), ParseLayout, &request.layout));
  if (message.has_memory()) {
    const v1::MemoryPlanRequest& m = message.memory();
    JobMemory& memory = request.memory.emplace();
    memory.budget = Bytes(m.budget_bytes());
    if (!m.policy().empty()) memory.policy = m.policy();
    memory.recompute = m.recompute();
    memory.offload_weights = m.offload_weights();
  }
  request.exclude_ranks.assign(message.exclude_ranks().begin(),
                               message.exclude_ranks().end());
  return request;
}

Result<RankPlan> FromProto(const v1::RankPlan& message) {
  RankPlan rank;
  rank.device_kind = message.device_kind();
  rank.batch = BatchSize(message.batch());
  rank.weight = message.weight();
  UCUDNN_ASSIGN_OR_RETURN(rank.workspace,
                          ReadWorkspacePlan(message.workspace()));
  rank.reason = message.reason();
  return rank;
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
  return message;
}

Result<ConvLayer> FromProto(const v1::Layer& message) {
  ConvLayer layer;
  ConvGeometry& g = layer.geometry;
  layer.name = message.name();
  g.channels = message.channels();
  g.filters = message.filters();
  g.groups = message.groups();
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
  for (const PointNumber& number : PointNumbers()) {
    const auto& field = FieldOf(number);
    const std::int64_t value = number.get(point);
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
  for (const PointNumber& number : PointNumbers()) {
    const auto& field = FieldOf(number);
    const std::int64_t value =
        field.cpp_type() == FieldDescriptor::CPPTYPE_INT32
            ? std::int64_t{reflection.GetInt32(message, &field)}
            : reflection.GetInt64(message, &field);
    UCUDNN_RETURN_IF_ERROR(SetNumber(number, value, &point));
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
  std::set<std::pair<std::string, ConvProblem>> done;
  for (const KernelProfile& kernel : profile.kernels) {
    if (!kernel.problem) continue;
    if (!done.emplace(kernel.id.device, *kernel.problem).second) continue;
    auto message =
        std::ranges::find(messages, kernel.id.device, &v1::Profile::id);
    if (message == messages.end()) {
      message = messages.emplace(messages.end());
      message->set_id(kernel.id.device);
    }
    v1::ProblemProfile& problem = *message->add_problems();
    problem.set_problem(ToString(*kernel.problem));
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
  }
  return messages;
}

Result<Profile> FromProto(const v1::Profile& message) {
  Profile profile;
  for (const v1::ProblemProfile& of_problem : message.problems()) {
    UCUDNN_ASSIGN_OR_RETURN(const ConvProblem problem,
                            ParseConvProblem(of_problem.problem()));
    KernelProfile& kernel = profile.kernels.emplace_back();
    kernel.id = {message.id(), "measured",        of_problem.problem(),
                 problem.op,   problem.precision, problem.layout};
    kernel.problem = problem;
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
  message.set_name(model.name);
  message.set_memory_bytes(model.memory.count());
  v1::ArithmeticRates& rates = *message.mutable_arithmetic_tflops();
  rates.set_fp32(model.fp32_rate / kTera);
  rates.set_tf32(model.tf32_rate / kTera);
  rates.set_half(model.half_rate / kTera);
  message.set_memory_gb_per_s(model.memory_rate / kGiga);
  message.set_launch_ns(model.launch.count());
  message.set_d2h_gb_per_s(model.d2h_rate / kGiga);
  message.set_h2d_gb_per_s(model.h2d_rate / kGiga);
  message.set_transfer_latency_ns(model.transfer_latency.count());
  message.set_duplex(model.duplex);
  if (model.both_ways_rate != 0) {
    message.set_both_ways_gb_per_s(model.both_ways_rate / kGiga);
  }
  for (const ModelledAlgorithm& algorithm : model.algorithms) {
    v1::ModelledAlgorithm& m = *message.add_algorithms();
    m.set_name(algorithm.name);
    m.set_speedup(algorithm.speedup);
  }
  return message;
}

Result<DeviceModel> FromProto(const v1::DeviceModel& message) {
  DeviceModel model;
  if (message.name().empty() || !IsPlainText(message.name())) {
    return Fail(Code::kInvalidArgument,
                "the device model's name is '{}'; plain text is accepted",
                Excerpt(message.name()));
  }
  model.name = message.name();
  model.memory = Bytes(message.memory_bytes());
  model.fp32_rate = message.arithmetic_tflops().fp32() * kTera;
  model.tf32_rate = message.arithmetic_tflops().tf32() * kTera;
  model.half_rate = message.arithmetic_tflops().half() * kTera;
  model.memory_rate = message.memory_gb_per_s() * kGiga;
  model.launch = Nanoseconds(message.launch_ns());
  model.d2h_rate = message.d2h_gb_per_s() * kGiga;
  model.h2d_rate = message.h2d_gb_per_s() * kGiga;
  model.transfer_latency = Nanoseconds(message.transfer_latency_ns());
  model.duplex = message.duplex();
  model.both_ways_rate = message.both_ways_gb_per_s() * kGiga;
  for (const v1::ModelledAlgorithm& algorithm : message.algorithms()) {
    model.algorithms.push_back({algorithm.name(), algorithm.speedup()});
  }
  UCUDNN_RETURN_IF_ERROR(Validate(model));
  return model;
}

v1::MicroBatch ToProto(const MicroBatch& micro) {
  v1::MicroBatch m;
  m.set_batch(micro.batch.count());
  m.set_count(micro.count);
  m.set_algorithm(micro.algorithm.name);
  m.set_math(micro.algorithm.math);
  m.set_precision(std::string(Name(micro.algorithm.precision)));
  m.set_time_ns(micro.time.count());
  m.set_workspace_bytes(micro.workspace.count());
  return m;
}

v1::WorkspacePlan ToProto(const WorkspacePlan& plan) {
  v1::WorkspacePlan message;
  message.set_batch(plan.batch.count());
  message.set_workspace_limit_bytes(plan.workspace_limit.count());
  message.set_total_time_ns(plan.total_time.count());
  message.set_lower_bound_ns(plan.lower_bound.count());
  message.set_optimal(plan.optimal);
  if (plan.undivided_time) {
    message.set_undivided_time_ns(plan.undivided_time->count());
  }
  message.set_total_workspace_bytes(plan.total_workspace.count());
  for (const KernelPlan& kernel : plan.kernels) {
    v1::KernelPlan& k = *message.add_kernels();
    k.set_layer(kernel.layer);
    k.set_op(std::string(Name(kernel.op)));
    k.set_precision(std::string(Name(kernel.precision)));
    k.set_layout(std::string(Name(kernel.layout)));
    if (kernel.problem) k.set_problem(ToString(*kernel.problem));
    k.set_time_ns(kernel.time.count());
    if (kernel.undivided_time) {
      k.set_undivided_time_ns(kernel.undivided_time->count());
    }
    k.set_workspace_bytes(kernel.workspace.count());
    if (kernel.offset) k.set_offset_bytes(kernel.offset->count());
    for (const MicroBatch& micro : kernel.micro_batches) {
      *k.add_micro_batches() = ToProto(micro);
    }
  }
  return message;
}

Result<WorkspacePlan> FromProto(const v1::WorkspacePlan& message) {
  UCUDNN_ASSIGN_OR_RETURN(WorkspacePlan plan, ReadWorkspacePlan(message));
  UCUDNN_RETURN_IF_ERROR(Validate(plan));
  return plan;
}

v1::PlanRequest ToProto(const JobRequest& request) {
  v1::PlanRequest message;
  message.set_network(request.network);
  message.set_batch(request.batch.count());
  for (const std::string& kind : request.device_kinds) {
    message.add_device_kinds(kind);
  }
  message.set_workspace_limit_bytes(request.workspace_limit.count());
  message.set_total_workspace_bytes(request.total_workspace.count());
  message.set_batch_policy(std::string(Name(request.policy)));
  message.set_precision(std::string(Name(request.precision)));
  message.set_layout(std::string(Name(request.layout)));
  if (request.memory) {
    v1::MemoryPlanRequest& memory = *message.mutable_memory();
    memory.set_budget_bytes(request.memory->budget.count());
    memory.set_policy(request.memory->policy);
    memory.set_recompute(request.memory->recompute);
    memory.set_offload_weights(request.memory->offload_weights);
  }
  for (const std::int32_t rank : request.exclude_ranks) {
    message.add_exclude_ranks(rank);
  }
  return message;
}

Result<JobRequest> FromProto(const v1::PlanRequest& message) {
  UCUDNN_ASSIGN_OR_RETURN(JobRequest request, ReadRequest(message));
  UCUDNN_RETURN_IF_ERROR(Validate(request));
  return request;
}

v1::Plan ToProto(const JobPlan& plan) {
  v1::Plan message;
  message.set_id(plan.id);
  message.set_revision(plan.revision);
  *message.mutable_request() = ToProto(plan.request);
  message.set_network_revision(plan.network_revision);
  message.set_predicted_ns(plan.predicted.count());
  message.set_lower_bound_ns(plan.lower_bound.count());
  message.set_optimal(plan.optimal);
  if (plan.undivided) message.set_undivided_ns(plan.undivided->count());
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    const RankPlan& rank = plan.ranks[i];
    v1::RankPlan& m = *message.add_ranks();
    m.set_rank(static_cast<std::int32_t>(i));
    m.set_device_kind(rank.device_kind);
    m.set_batch(rank.batch.count());
    m.set_weight(rank.weight);
    *m.mutable_workspace() = ToProto(rank.workspace);
    m.set_reason(rank.reason);
  }
  for (const std::string& reason : plan.reasons) message.add_reasons(reason);
  message.set_created_ms(plan.created_ms);
  for (const DeviceMemoryPlan& memory : plan.memory_plans) {
    v1::DeviceMemoryPlan& m = *message.add_memory_plans();
    m.set_device_kind(memory.device_kind);
    m.set_batch(memory.batch.count());
    m.set_plan_json(memory.plan);
  }
  return message;
}

Result<JobPlan> FromProto(const v1::Plan& message) {
  JobPlan plan;
  plan.id = message.id();
  plan.revision = message.revision();
  Result<JobRequest> request = ReadRequest(message.request());
  if (!request) return Within("request", std::move(request).error());
  plan.request = *std::move(request);
  plan.network_revision = message.network_revision();
  plan.predicted = Nanoseconds(message.predicted_ns());
  plan.lower_bound = Nanoseconds(message.lower_bound_ns());
  plan.optimal = message.optimal();
  if (message.has_undivided_ns()) {
    plan.undivided = Nanoseconds(message.undivided_ns());
  }
  for (int i = 0; i < message.ranks_size(); ++i) {
    const v1::RankPlan& m = message.ranks(i);
    if (m.rank() != i) {
      return Fail(Code::kInvalidArgument,
                  "ranks[{}].rank is {}; {}, as ranks are listed from 0 on, is "
                  "accepted",
                  i, m.rank(), i);
    }
    Result<RankPlan> rank = FromProto(m);
    if (!rank) {
      return Within(fmt::format("ranks[{}]", i), std::move(rank).error());
    }
    plan.ranks.push_back(*std::move(rank));
  }
  plan.reasons.assign(message.reasons().begin(), message.reasons().end());
  plan.created_ms = message.created_ms();
  for (const v1::DeviceMemoryPlan& m : message.memory_plans()) {
    plan.memory_plans.push_back(
        {m.device_kind(), BatchSize(m.batch()), m.plan_json()});
  }
  UCUDNN_RETURN_IF_ERROR(Validate(plan));
  return plan;
}

}  // namespace ucudnn
