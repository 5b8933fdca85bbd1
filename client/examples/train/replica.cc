#include "client/examples/train/replica.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace ucudnn::train {
namespace {

constexpr std::array kAllOps = {ConvOp::kForward, ConvOp::kBackwardData,
                                ConvOp::kBackwardFilter};

}  // namespace

Result<std::unique_ptr<Replica>> Replica::Create(Device& device, Layers& layers,
                                                 const Net& net,
                                                 const WorkspacePlan& plan,
                                                 Parameters& parameters) {
  std::unique_ptr<Replica> replica(
      new Replica(device, layers, net, parameters));
  replica->batch_ = plan.batch;
  UCUDNN_RETURN_IF_ERROR(replica->FindKernels(plan));
  UCUDNN_RETURN_IF_ERROR(replica->Allocate());
  UCUDNN_ASSIGN_OR_RETURN(replica->executor_, Executor::Create(device, plan));
  return replica;
}

Status Replica::FindKernels(const WorkspacePlan& plan) {
  std::map<std::pair<std::string, ConvOp>, std::size_t> by_name;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    by_name.emplace(std::pair(plan.kernels[k].layer, plan.kernels[k].op), k);
  }
  for (const Layer& layer : net_.layers) {
    auto& kernels = kernels_.emplace_back();
    if (layer.kind != Layer::Kind::kConvolution) continue;
    for (const ConvOp op : kAllOps) {
      if (op == ConvOp::kBackwardData && layer.input == 0) continue;
      const auto found = by_name.find({layer.name, op});
      if (found == by_name.end()) {
        return Fail(Code::kInvalidArgument, "the plan has no kernel {} {}",
                    layer.name, Name(op));
      }
      kernels[static_cast<std::size_t>(op)] = found->second;
    }
  }
  return {};
}

Status Replica::Allocate() {
  const auto size = [&](const Extent& extent) {
    return Bytes(batch_.count() * extent.elements() *
                 std::int64_t{sizeof(float)});
  };
  for (const Extent& extent : net_.tensors) {
    UCUDNN_ASSIGN_OR_RETURN(DeviceBuffer values,
                            device_.Allocate(size(extent)));
    DeviceBuffer gradients;
    if (!tensors_.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(gradients, device_.Allocate(size(extent)));
    }
    tensors_.push_back(std::move(values));
    gradients_.push_back(std::move(gradients));
  }
  has_gradient_.resize(net_.tensors.size());
  const Extent& classes = net_.tensors.back();
  UCUDNN_ASSIGN_OR_RETURN(probabilities_, device_.Allocate(size(classes)));
  UCUDNN_ASSIGN_OR_RETURN(targets_, device_.Allocate(size(classes)));
  for (std::size_t i = 0; i < net_.layers.size(); ++i) {
    const Layer& layer = net_.layers[i];
    std::unique_ptr<Pool> pool;
    if (layer.kind == Layer::Kind::kMaxPool ||
        layer.kind == Layer::Kind::kAveragePool) {
      UCUDNN_ASSIGN_OR_RETURN(pool,
                              layers_.MakePool(layer, net_.tensors[layer.input],
                                               net_.tensors[i + 1], batch_));
    }
    pools_.push_back(std::move(pool));
  }
  return {};
}

Status Replica::Load(std::span<const float> images,
                     const std::vector<std::int64_t>& labels) {
  const std::int64_t classes = net_.classes();
  labels_ = labels;
  std::vector<float> targets(labels.size() * static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    targets[i * static_cast<std::size_t>(classes) +
            static_cast<std::size_t>(labels[i])] = 1;
  }
  UCUDNN_CHECK(tensors_[0].size() ==
               Bytes(std::ssize(images) * std::int64_t{sizeof(float)}));
  UCUDNN_RETURN_IF_ERROR(
      device_.Upload(tensors_[0].data(), images.data(), tensors_[0].size()));
  return device_.Upload(targets_.data(), targets.data(), targets_.size());
}

ConvArgs Replica::ArgsOf(std::size_t layer, ConvOp op, float beta) const {
  const std::size_t input = net_.layers[layer].input;
  const std::size_t output = layer + 1;
  ConvArgs args;
  args.beta = beta;
  switch (op) {
    case ConvOp::kForward:
      args.a = tensor(input);
      args.b = parameters_.filter(layer);
      args.out = tensor(output);
      break;
    case ConvOp::kBackwardData:
      args.a = gradient(output);
      args.b = parameters_.filter(layer);
      args.out = gradient(input);
      break;
    case ConvOp::kBackwardFilter:
      args.a = tensor(input);
      args.b = gradient(output);
      args.out = parameters_.gradient(layer);
      break;
  }
  return args;
}

Status Replica::Forward(std::size_t i) {
  const Layer& layer = net_.layers[i];
  const Extent& extent = net_.tensors[i + 1];
  switch (layer.kind) {
    case Layer::Kind::kConvolution:
      UCUDNN_RETURN_IF_ERROR(
          executor_->Run(*kernels_[i][std::size_t(ConvOp::kForward)],
                         ArgsOf(i, ConvOp::kForward, 0)));
      break;
    case Layer::Kind::kMaxPool:
    case Layer::Kind::kAveragePool:
      return pools_[i]->Forward(tensor(layer.input), tensor(i + 1));
    case Layer::Kind::kAdd:
      UCUDNN_RETURN_IF_ERROR(layers_.Blend(
          batch_, extent, 1, tensor(layer.input), 0, tensor(i + 1)));
      UCUDNN_RETURN_IF_ERROR(layers_.Blend(
          batch_, extent, 1, tensor(layer.other), 1, tensor(i + 1)));
      break;
  }
  if (!layer.relu) return {};
  return layers_.Relu(batch_, extent, tensor(i + 1));
}

Status Replica::AddGradient(const Extent& extent, const float* from,
                            std::size_t to) {
  if (to == 0) return {};
  UCUDNN_RETURN_IF_ERROR(layers_.Blend(
      batch_, extent, 1, from, has_gradient_[to] ? 1.0F : 0.0F, gradient(to)));
  has_gradient_[to] = true;
  return {};
}

Status Replica::Backward(std::size_t i, const Made& made) {
  const Layer& layer = net_.layers[i];
  const Extent& extent = net_.tensors[i + 1];
  if (layer.relu) {
    UCUDNN_RETURN_IF_ERROR(
        layers_.ReluBackward(batch_, extent, tensor(i + 1), gradient(i + 1)));
  }
  switch (layer.kind) {
    case Layer::Kind::kConvolution:
      UCUDNN_RETURN_IF_ERROR(
          executor_->Run(*kernels_[i][std::size_t(ConvOp::kBackwardFilter)],
                         ArgsOf(i, ConvOp::kBackwardFilter, 0)));
      if (made) UCUDNN_RETURN_IF_ERROR(made(i));
      if (layer.input == 0) return {};
      UCUDNN_RETURN_IF_ERROR(
          executor_->Run(*kernels_[i][std::size_t(ConvOp::kBackwardData)],
                         ArgsOf(i, ConvOp::kBackwardData,
                                has_gradient_[layer.input] ? 1.0F : 0.0F)));
      has_gradient_[layer.input] = true;
      return {};
    case Layer::Kind::kMaxPool:
    case Layer::Kind::kAveragePool:
      if (layer.input == 0) return {};
      // In our networks, a pool is the only reader of its input.
      UCUDNN_CHECK(!has_gradient_[layer.input]);
      has_gradient_[layer.input] = true;
      return pools_[i]->Backward(tensor(layer.input), tensor(i + 1),
                                 gradient(i + 1), gradient(layer.input));
    case Layer::Kind::kAdd:
      UCUDNN_RETURN_IF_ERROR(AddGradient(extent, gradient(i + 1), layer.input));
      return AddGradient(extent, gradient(i + 1), layer.other);
  }
  return {};
}

Status Replica::Run(const Made& made) {
  for (std::size_t i = 0; i < net_.layers.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(Forward(i));
  }
  // The gradient of the mean cross-entropy after softmax.
  const Extent& classes = net_.tensors.back();
  const std::size_t last = net_.layers.size();
  const float share = 1 / static_cast<float>(batch_.count());
  auto* probabilities = static_cast<float*>(probabilities_.data());
  UCUDNN_RETURN_IF_ERROR(
      layers_.Softmax(batch_, classes, tensor(last), probabilities));
  UCUDNN_RETURN_IF_ERROR(
      layers_.Blend(batch_, classes, share, probabilities, 0, gradient(last)));
  UCUDNN_RETURN_IF_ERROR(layers_.Blend(
      batch_, classes, -share, static_cast<const float*>(targets_.data()), 1,
      gradient(last)));
  std::fill(has_gradient_.begin(), has_gradient_.end(), false);
  for (std::size_t i = net_.layers.size(); i > 0; --i) {
    UCUDNN_RETURN_IF_ERROR(Backward(i - 1, made));
  }
  return {};
}

Result<double> Replica::Loss() {
  const auto classes = static_cast<std::size_t>(net_.classes());
  std::vector<float> probabilities(labels_.size() * classes);
  UCUDNN_RETURN_IF_ERROR(device_.Download(
      probabilities.data(), probabilities_.data(), probabilities_.size()));
  double sum = 0;
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    const float p =
        probabilities[i * classes + static_cast<std::size_t>(labels_[i])];
    // At least about the smallest float, so that no loss is infinite.
    sum -= std::log(std::max(double{p}, 1e-30));
  }
  return sum;
}

Result<Nanoseconds> Replica::TimeConvolutions() {
  return device_.Time([&]() -> Status {
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      for (const ConvOp op : kAllOps) {
        const auto& kernel = kernels_[i][static_cast<std::size_t>(op)];
        if (!kernel) continue;
        UCUDNN_RETURN_IF_ERROR(executor_->Run(*kernel, ArgsOf(i, op, 0)));
      }
    }
    return {};
  });
}

}  // namespace ucudnn::train
