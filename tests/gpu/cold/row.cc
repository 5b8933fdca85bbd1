#include "tests/gpu/cold/row.h"

#include <algorithm>

#include "device/elements.h"

namespace ucudnn::cold {
namespace {

// A buffer of at least `size` bytes; random values if `is_read`, else zeros.
Result<DeviceBuffer> Allocate(Device& device, std::int64_t size, bool is_read,
                              const std::string& pattern) {
  UCUDNN_ASSIGN_OR_RETURN(DeviceBuffer buffer, device.Allocate(Bytes(size)));
  if (!is_read) {
    UCUDNN_RETURN_IF_ERROR(device.Fill(buffer.data(), 0, buffer.size()));
    return buffer;
  }
  UCUDNN_RETURN_IF_ERROR(UploadRepeated(device, buffer, pattern));
  return buffer;
}

char* At(const DeviceBuffer& buffer, std::int64_t offset) {
  return static_cast<char*>(buffer.data()) + offset;
}

}  // namespace

Result<std::unique_ptr<RowOperands>> RowOperands::Create(
    Device& device, const std::vector<Kernel>& kernels, BatchSize batch,
    bool apart) {
  if (kernels.empty()) {
    return Fail(Code::kInvalidArgument, "a network without kernels");
  }
  auto row = std::make_unique<RowOperands>();
  row->apart_ = apart;
  const Precision precision = kernels.front().problem.precision;
  const std::int64_t element = ElementBytes(precision);
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t filter = 0;
  std::int64_t largest = 0;
  // Reserves the next operand's place in its buffer.
  const auto place = [](std::int64_t bytes, std::int64_t* end) {
    constexpr std::int64_t kAlignment = 256;
    const std::int64_t begin = *end;
    *end += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return begin;
  };
  for (const Kernel& kernel : kernels) {
    const auto [places, is_new] = row->places_.try_emplace(row->KeyOf(kernel));
    if (!is_new) continue;
    const ConvGeometry& g = kernel.problem.geometry;
    const std::int64_t x = batch.count() * g.input_elements() * element;
    const std::int64_t y = batch.count() * g.output_elements() * element;
    const std::int64_t w = g.filter_elements() * element;
    places->second = {place(x, &input), place(y, &output), place(w, &filter)};
    largest = std::max({largest, x, y, w});
  }
  // Shared operands serve every kernel.
  input = std::max(input, largest);
  output = std::max(output, largest);
  constexpr std::int64_t kPattern = 4'194'301;  // a prime
  const std::string pattern = RandomElements(kPattern, precision, 1);
  UCUDNN_ASSIGN_OR_RETURN(row->input_, Allocate(device, input, true, pattern));
  UCUDNN_ASSIGN_OR_RETURN(row->output_gradient_,
                          Allocate(device, output, true, pattern));
  UCUDNN_ASSIGN_OR_RETURN(row->filter_,
                          Allocate(device, filter, true, pattern));
  UCUDNN_ASSIGN_OR_RETURN(row->output_,
                          Allocate(device, output, false, pattern));
  UCUDNN_ASSIGN_OR_RETURN(row->input_gradient_,
                          Allocate(device, input, false, pattern));
  UCUDNN_ASSIGN_OR_RETURN(row->filter_gradient_,
                          Allocate(device, filter, false, pattern));
  return row;
}

std::string RowOperands::KeyOf(const Kernel& kernel) const {
  return apart_ ? fmt::format("{} {}", kernel.layer, Name(kernel.op))
                : kernel.layer;
}

ConvArgs RowOperands::Shared() const {
  return {
      .a = input_.data(), .b = output_gradient_.data(), .out = output_.data()};
}

ConvArgs RowOperands::Own(const Kernel& kernel) const {
  const Places& at = places_.at(KeyOf(kernel));
  switch (kernel.problem.op) {
    case ConvOp::kBackwardData:
      return {.a = At(output_gradient_, at.output),
              .b = At(filter_, at.filter),
              .out = At(input_gradient_, at.input)};
    case ConvOp::kBackwardFilter:
      return {.a = At(input_, at.input),
              .b = At(output_gradient_, at.output),
              .out = At(filter_gradient_, at.filter)};
    case ConvOp::kForward:
      break;
  }
  return {.a = At(input_, at.input),
          .b = At(filter_, at.filter),
          .out = At(output_, at.output)};
}

std::vector<std::size_t> RowOperands::TrainingOrder(
    const std::vector<Kernel>& kernels) {
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].op == ConvOp::kForward) order.push_back(k);
  }
  for (std::size_t k = kernels.size(); k-- > 0;) {
    if (kernels[k].op != ConvOp::kForward) order.push_back(k);
  }
  return order;
}

}  // namespace ucudnn::cold
