#include "client/examples/train/parameters.h"

#include <cmath>
#include <utility>

#include "client/examples/train/random.h"

namespace ucudnn::train {
namespace {

// In elements: 256 bytes, the alignment of device allocations.
constexpr std::int64_t kAlignment = 64;

}  // namespace

Result<std::unique_ptr<Parameters>> Parameters::Create(Device& device,
                                                       const Net& net,
                                                       std::uint64_t seed) {
  std::unique_ptr<Parameters> parameters(new Parameters(device));
  State state;
  for (std::size_t i = 0; i < net.layers.size(); ++i) {
    const Layer& layer = net.layers[i];
    if (layer.kind != Layer::Kind::kConvolution) {
      parameters->offsets_.push_back(-1);
      continue;
    }
    const std::int64_t elements = layer.geometry.filter_elements();
    const double inputs = static_cast<double>(elements) /
                          static_cast<double>(layer.geometry.filters);
    const auto range = static_cast<float>(layer.gain * std::sqrt(6 / inputs));
    parameters->offsets_.push_back(std::ssize(state.filters));
    Random random(seed, i);
    for (std::int64_t n = 0; n < elements; ++n) {
      state.filters.push_back(range * random.Unit());
    }
    const std::int64_t end =
        (std::ssize(state.filters) + kAlignment - 1) / kAlignment * kAlignment;
    state.filters.resize(static_cast<std::size_t>(end), 0.0F);
  }
  parameters->count_ = std::ssize(state.filters);
  state.velocities.resize(state.filters.size(), 0.0F);
  for (DeviceBuffer* buffer : {&parameters->filters_, &parameters->gradients_,
                               &parameters->velocities_}) {
    UCUDNN_ASSIGN_OR_RETURN(*buffer, device.Allocate(parameters->size()));
  }
  UCUDNN_RETURN_IF_ERROR(parameters->Restore(state));
  // Zeroes the padding between filters, which is never written again.
  UCUDNN_RETURN_IF_ERROR(
      device.Fill(parameters->gradients_.data(), 0, parameters->size()));
  return parameters;
}

float* Parameters::At(const DeviceBuffer& buffer, std::size_t layer) const {
  UCUDNN_CHECK(offsets_[layer] >= 0);
  return static_cast<float*>(buffer.data()) + offsets_[layer];
}

float* Parameters::filter(std::size_t layer) const {
  return At(filters_, layer);
}

float* Parameters::gradient(std::size_t layer) const {
  return At(gradients_, layer);
}

std::vector<Parameters::Bucket> Parameters::Buckets(Bytes least) const {
  std::vector<Bucket> buckets;
  std::int64_t end = count_;
  for (std::size_t layer = offsets_.size(); layer-- > 0;) {
    const std::int64_t begin = offsets_[layer];
    if (begin < 0) continue;
    const std::int64_t count = end - begin;
    if (begin > 0 && Bytes(count * std::int64_t{sizeof(float)}) < least) {
      continue;
    }
    buckets.push_back(
        {layer, gradients().subspan(static_cast<std::size_t>(begin),
                                    static_cast<std::size_t>(count))});
    end = begin;
  }
  return buckets;
}

Status Parameters::Update(Operators& operators, float rate, float momentum) {
  const BatchSize one(1);
  UCUDNN_RETURN_IF_ERROR(operators.Blend(
      one, count_, 1, static_cast<const float*>(gradients_.data()), momentum,
      static_cast<float*>(velocities_.data())));
  return operators.Blend(one, count_, -rate,
                         static_cast<const float*>(velocities_.data()), 1,
                         static_cast<float*>(filters_.data()));
}

Result<Parameters::State> Parameters::Save() {
  State state;
  state.filters.resize(static_cast<std::size_t>(count_));
  state.velocities.resize(static_cast<std::size_t>(count_));
  UCUDNN_RETURN_IF_ERROR(
      device_.Download(state.filters.data(), filters_.data(), size()));
  UCUDNN_RETURN_IF_ERROR(
      device_.Download(state.velocities.data(), velocities_.data(), size()));
  return state;
}

Status Parameters::Restore(const State& state) {
  UCUDNN_CHECK(std::ssize(state.filters) == count_ &&
               std::ssize(state.velocities) == count_);
  UCUDNN_RETURN_IF_ERROR(
      device_.Upload(filters_.data(), state.filters.data(), size()));
  return device_.Upload(velocities_.data(), state.velocities.data(), size());
}

}  // namespace ucudnn::train
