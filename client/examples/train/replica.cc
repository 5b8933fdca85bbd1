#include "client/examples/train/replica.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace ucudnn::train {
namespace {

static_assert(sizeof(std::int32_t) == sizeof(float));

// Of a value an image: a label or its probability.
Bytes LabelBytes(BatchSize batch) {
  return Bytes(batch.count() * std::int64_t{sizeof(float)});
}

constexpr std::array kAllOps = {ConvOp::kForward, ConvOp::kBackwardData,
                                ConvOp::kBackwardFilter};

}  // namespace

Result<std::unique_ptr<Replica>> Replica::Create(Device& device,
                                                 Operators& operators,
                                                 const Net& net,
                                                 const WorkspacePlan& plan,
                                                 Parameters& parameters) {
  std::unique_ptr<Replica> replica(
      new Replica(device, operators, net, parameters));
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
  const auto size = [&](const ImageExtent& extent) {
    return Bytes(batch_.count() * extent.elements() *
                 std::int64_t{sizeof(float)});
  };
  for (const ImageExtent& extent : net_.tensors) {
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
  UCUDNN_ASSIGN_OR_RETURN(next_images_,
                          device_.Allocate(size(net_.tensors[0])));
  for (DeviceBuffer* labels : {&labels_, &next_labels_}) {
    UCUDNN_ASSIGN_OR_RETURN(*labels, device_.Allocate(LabelBytes(batch_)));
  }
  UCUDNN_ASSIGN_OR_RETURN(copies_, device_.MakeCopyQueue());
  UCUDNN_ASSIGN_OR_RETURN(probabilities_, device_.Allocate(LabelBytes(batch_)));
  return {};
}

Status Replica::Load(std::span<const float> images,
                     const std::vector<std::int64_t>& labels) {
  UCUDNN_CHECK(next_images_.size() ==
               Bytes(std::ssize(images) * std::int64_t{sizeof(float)}));
  classes_.assign(labels.begin(), labels.end());
  loading_ = true;
  UCUDNN_RETURN_IF_ERROR(
      copies_->Upload(next_images_.data(), images.data(), next_images_.size()));
  return copies_->Upload(next_labels_.data(), classes_.data(),
                         next_labels_.size());
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
  const std::int64_t elements = net_.tensors[i + 1].elements();
  switch (layer.kind) {
    case Layer::Kind::kConvolution:
      UCUDNN_RETURN_IF_ERROR(
          executor_->Run(*kernels_[i][std::size_t(ConvOp::kForward)],
                         ArgsOf(i, ConvOp::kForward, 0)));
      break;
    case Layer::Kind::kPool:
      return operators_.Pool(batch_, layer.pooling, tensor(layer.input),
                             tensor(i + 1));
    case Layer::Kind::kAdd:
      UCUDNN_RETURN_IF_ERROR(operators_.Blend(
          batch_, elements, 1, tensor(layer.input), 0, tensor(i + 1)));
      UCUDNN_RETURN_IF_ERROR(operators_.Blend(
          batch_, elements, 1, tensor(layer.other), 1, tensor(i + 1)));
      break;
  }
  if (!layer.relu) return {};
  return operators_.Relu(batch_, elements, tensor(i + 1), tensor(i + 1));
}

float Replica::BetaOf(std::size_t i) {
  const bool was_written = has_gradient_[i];
  has_gradient_[i] = true;
  return was_written ? 1.0F : 0.0F;
}

Status Replica::AddGradient(const float* from, std::size_t to) {
  if (to == 0) return {};
  return operators_.Blend(batch_, net_.tensors[to].elements(), 1, from,
                          BetaOf(to), gradient(to));
}

Status Replica::Backward(std::size_t i, const Made& made) {
  const Layer& layer = net_.layers[i];
  float* const dy = gradient(i + 1);
  if (layer.relu) {
    UCUDNN_RETURN_IF_ERROR(operators_.ReluBackward(
        batch_, net_.tensors[i + 1].elements(), tensor(i + 1), dy, 0, dy));
  }
  switch (layer.kind) {
    case Layer::Kind::kConvolution:
      UCUDNN_RETURN_IF_ERROR(
          executor_->Run(*kernels_[i][std::size_t(ConvOp::kBackwardFilter)],
                         ArgsOf(i, ConvOp::kBackwardFilter, 0)));
      if (made) UCUDNN_RETURN_IF_ERROR(made(i));
      if (layer.input == 0) return {};
      return executor_->Run(
          *kernels_[i][std::size_t(ConvOp::kBackwardData)],
          ArgsOf(i, ConvOp::kBackwardData, BetaOf(layer.input)));
    case Layer::Kind::kPool:
      if (layer.input == 0) return {};
      return operators_.PoolBackward(batch_, layer.pooling, tensor(layer.input),
                                     tensor(i + 1), dy, BetaOf(layer.input),
                                     gradient(layer.input));
    case Layer::Kind::kAdd:
      UCUDNN_RETURN_IF_ERROR(AddGradient(dy, layer.input));
      return AddGradient(dy, layer.other);
  }
  return {};
}

Status Replica::Run(const Made& made) {
  if (std::exchange(loading_, false)) {
    UCUDNN_RETURN_IF_ERROR(copies_->Synchronize());
    std::swap(tensors_[0], next_images_);
    std::swap(labels_, next_labels_);
  }
  for (std::size_t i = 0; i < net_.layers.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(Forward(i));
  }
  // The gradient of the mean cross-entropy after softmax.
  const std::size_t last = net_.layers.size();
  UCUDNN_RETURN_IF_ERROR(operators_.SoftmaxLoss(
      batch_, net_.tensors[last], tensor(last),
      static_cast<const std::int32_t*>(labels_.data()),
      1 / static_cast<float>(batch_.count()), gradient(last),
      static_cast<float*>(probabilities_.data())));
  std::fill(has_gradient_.begin(), has_gradient_.end(), false);
  for (std::size_t i = net_.layers.size(); i > 0; --i) {
    UCUDNN_RETURN_IF_ERROR(Backward(i - 1, made));
  }
  return {};
}

Result<double> Replica::Loss() {
  std::vector<float> probabilities(static_cast<std::size_t>(batch_.count()));
  UCUDNN_RETURN_IF_ERROR(device_.Download(
      probabilities.data(), probabilities_.data(), probabilities_.size()));
  double sum = 0;
  for (const float p : probabilities) {
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
