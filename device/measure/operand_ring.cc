#include "device/measure/operand_ring.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "device/elements.h"

namespace ucudnn {
namespace {

// Elements of a pattern that is uploaded repeatedly: a prime, so that it does
// not repeat in step with any tensor's rows.
constexpr std::int64_t kPatternElements = 262'139;

unsigned char* At(const DeviceBuffer& buffer, Bytes offset) {
  return static_cast<unsigned char*>(buffer.data()) + offset.count();
}

}  // namespace

Result<bool> GrowBuffer(Device& device, Bytes size, DeviceBuffer* buffer) {
  if (buffer->size() >= size && buffer->data() != nullptr) return false;
  buffer->Reset();  // before, not beside, its successor
  UCUDNN_ASSIGN_OR_RETURN(*buffer, device.Allocate(size));
  return true;
}

OperandRing::Operands OperandRing::OperandsOf(BatchSize batch) const {
  const ConvGeometry& g = problem_.geometry;
  const Bytes element(ElementBytes(problem_.precision));
  const Operand input{element * batch.count() * g.input_elements(), true};
  const Operand output{element * batch.count() * g.output_elements(), true};
  const Operand filter{element * g.filter_elements(), false};
  switch (problem_.op) {
    case ConvOp::kBackwardData:
      return {output, filter, input};
    case ConvOp::kBackwardFilter:
      return {input, output, filter};
    case ConvOp::kForward:
      break;
  }
  return {input, filter, output};
}

std::int64_t OperandRing::WantedRound(const Operands& one) const {
  // If this many runs still fit in the cache, they are so small that the launch
  // dominates.
  constexpr std::int64_t kMost = 1024;
  std::int64_t bytes = 0;  // touched by one run
  for (const Operand& operand : {one.a, one.b, one.out}) {
    if (operand.images) bytes += operand.size.count();
  }
  bytes = std::max<std::int64_t>(bytes, 1);
  return std::clamp<std::int64_t>((round_.count() + bytes - 1) / bytes, 1,
                                  kMost);
}

std::int64_t OperandRing::RoundOf(BatchSize batch) const {
  const Operands one = OperandsOf(batch);
  std::int64_t round = WantedRound(one);
  for (const auto& [buffer, operand] :
       {std::pair{&a_.buffer, &one.a}, std::pair{&b_.buffer, &one.b},
        std::pair{&out_, &one.out}}) {
    if (!operand->images) continue;
    round =
        std::min(round, buffer->size().count() /
                            std::max<std::int64_t>(operand->size.count(), 1));
  }
  return round;
}

Status OperandRing::Prepare(const ConvProblem& problem, BatchSize batch,
                            Bytes round) {
  problem_ = problem;
  round_ = round;
  const Operands one = OperandsOf(batch);
  Status reserved = Reserve(one, WantedRound(one));
  if (!reserved) Release();
  return reserved;
}

Status OperandRing::Reserve(const Operands& one, std::int64_t runs) {
  const auto size = [&](const Operand& operand) {
    return operand.images ? operand.size * runs : operand.size;
  };
  UCUDNN_ASSIGN_OR_RETURN(const bool new_out,
                          GrowBuffer(device_, size(one.out), &out_));
  // The system may map host memory only when it is first written.
  if (new_out) {
    UCUDNN_RETURN_IF_ERROR(device_.Fill(out_.data(), 0, out_.size()));
  }
  for (const auto& [filled, operand] :
       {std::pair{&a_, &one.a}, std::pair{&b_, &one.b}}) {
    if (filled->buffer.size() < size(*operand)) filled->with.reset();
    UCUDNN_RETURN_IF_ERROR(
        GrowBuffer(device_, size(*operand), &filled->buffer));
  }
  const Precision precision = problem_.precision;
  if (a_.with == precision && b_.with == precision) return {};
  // No zeros, so no product can be skipped.
  const std::string pattern = RandomElements(kPatternElements, precision, 1);
  for (Filled* const filled : {&a_, &b_}) {
    if (filled->with == precision) continue;
    filled->with.reset();
    UCUDNN_RETURN_IF_ERROR(UploadRepeated(device_, filled->buffer, pattern));
    filled->with = precision;
  }
  return {};
}

ConvArgs OperandRing::Next(BatchSize batch) {
  const Operands one = OperandsOf(batch);
  // Continues across algorithms: the next operands are the least recently used.
  const std::int64_t turn = turns_++ % RoundOf(batch);
  const auto at = [&](const DeviceBuffer& buffer, const Operand& operand) {
    return At(buffer, operand.images ? operand.size * turn : Bytes());
  };
  return {.a = at(a_.buffer, one.a),
          .b = at(b_.buffer, one.b),
          .out = at(out_, one.out)};
}

Status OperandRing::ClearFilterGradient() {
  if (problem_.op != ConvOp::kBackwardFilter) return {};
  return device_.Fill(out_.data(), 0, OperandsOf(BatchSize(1)).out.size);
}

void OperandRing::Release() {
  a_ = {};
  b_ = {};
  out_.Reset();
}

}  // namespace ucudnn
